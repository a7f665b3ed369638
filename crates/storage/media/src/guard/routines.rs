//! The only instructions that touch pool memory or a caller's buffer.
//!
//! All are between two symbols, use no stack, and return in `rax` 0 or the faulting address. The signal handler
//! (`super::handle`) stores the address and makes the routine continue at one of the two ends below. Bytes before the
//! fault may have been copied.

use std::arch::{asm, global_asm};
use std::sync::OnceLock;

use super::features::features;

/// `copy(destination, source, bytes)`; the ranges may not overlap.
pub(crate) type Copy = unsafe extern "C" fn(*mut u8, *const u8, usize) -> usize;
/// `flush(first line, lines)`.
pub(crate) type Flush = unsafe extern "C" fn(*const u8, usize) -> usize;

/// What [`egeria_media_guard_load`] answers, in `rax` and `rdx`.
#[repr(C)]
pub(crate) struct Loaded {
    pub(crate) fault: usize,
    pub(crate) value: u64,
}

// Copies of less than 64 bytes, shared by all widths: overlapping moves from both ends.
global_asm!(
    ".pushsection .text.egeria_media_guard,\"ax\",@progbits",
    ".p2align 6",
    ".globl egeria_media_guard_start",
    ".hidden egeria_media_guard_start",
    "egeria_media_guard_start:",
    // Faulting routines continue here; the handler has set rax.
    ".globl egeria_media_guard_end_sse",
    ".hidden egeria_media_guard_end_sse",
    "egeria_media_guard_end_sse:",
    "ret",
    ".globl egeria_media_guard_end_avx",
    ".hidden egeria_media_guard_end_avx",
    "egeria_media_guard_end_avx:",
    "vzeroupper",
    "ret",
    // load(address) -> (fault, value)
    ".p2align 4",
    ".globl egeria_media_guard_load",
    ".hidden egeria_media_guard_load",
    "egeria_media_guard_load:",
    "mov rdx, [rdi]",
    "xor eax, eax",
    "ret",
    // store(address, value)
    ".p2align 4",
    ".globl egeria_media_guard_store",
    ".hidden egeria_media_guard_store",
    "egeria_media_guard_store:",
    "mov [rdi], rsi",
    "xor eax, eax",
    "ret",
    // store and non-temporal store of a line: rdi, words in rsi, rdx, rcx, r8 to r11, rax
    ".p2align 4",
    ".globl egeria_media_guard_store_line",
    ".hidden egeria_media_guard_store_line",
    "egeria_media_guard_store_line:",
    "mov [rdi], rsi",
    "mov [rdi + 8], rdx",
    "mov [rdi + 16], rcx",
    "mov [rdi + 24], r8",
    "mov [rdi + 32], r9",
    "mov [rdi + 40], r10",
    "mov [rdi + 48], r11",
    "mov [rdi + 56], rax",
    "xor eax, eax",
    "ret",
    ".p2align 4",
    ".globl egeria_media_guard_stream_line",
    ".hidden egeria_media_guard_stream_line",
    "egeria_media_guard_stream_line:",
    "movnti [rdi], rsi",
    "movnti [rdi + 8], rdx",
    "movnti [rdi + 16], rcx",
    "movnti [rdi + 24], r8",
    "movnti [rdi + 32], r9",
    "movnti [rdi + 40], r10",
    "movnti [rdi + 48], r11",
    "movnti [rdi + 56], rax",
    "xor eax, eax",
    "ret",
    // non-temporal store(address, value)
    ".p2align 4",
    ".globl egeria_media_guard_stream_word",
    ".hidden egeria_media_guard_stream_word",
    "egeria_media_guard_stream_word:",
    "movnti [rdi], rsi",
    "xor eax, eax",
    "ret",
    // fill with zeros(address, bytes): edges only
    ".p2align 4",
    ".globl egeria_media_guard_zero",
    ".hidden egeria_media_guard_zero",
    "egeria_media_guard_zero:",
    "mov rcx, rsi",
    "xor eax, eax",
    "rep stosb",
    "ret",
    // non-temporal zeros(address, bytes): both multiples of 64, bytes > 0
    ".p2align 4",
    ".globl egeria_media_guard_zero_stream",
    ".hidden egeria_media_guard_zero_stream",
    "egeria_media_guard_zero_stream:",
    "pxor xmm0, xmm0",
    "2:",
    "movntdq [rdi], xmm0",
    "movntdq [rdi + 16], xmm0",
    "movntdq [rdi + 32], xmm0",
    "movntdq [rdi + 48], xmm0",
    "add rdi, 64",
    "sub rsi, 64",
    "jnz 2b",
    "xor eax, eax",
    "ret",
    // the three flushes(first line, lines), lines > 0
    ".p2align 4",
    ".globl egeria_media_guard_clwb",
    ".hidden egeria_media_guard_clwb",
    "egeria_media_guard_clwb:",
    "clwb [rdi]",
    "add rdi, 64",
    "dec rsi",
    "jnz egeria_media_guard_clwb",
    "xor eax, eax",
    "ret",
    ".p2align 4",
    ".globl egeria_media_guard_clflushopt",
    ".hidden egeria_media_guard_clflushopt",
    "egeria_media_guard_clflushopt:",
    "clflushopt [rdi]",
    "add rdi, 64",
    "dec rsi",
    "jnz egeria_media_guard_clflushopt",
    "xor eax, eax",
    "ret",
    ".p2align 4",
    ".globl egeria_media_guard_clflush",
    ".hidden egeria_media_guard_clflush",
    "egeria_media_guard_clflush:",
    "clflush [rdi]",
    "add rdi, 64",
    "dec rsi",
    "jnz egeria_media_guard_clflush",
    "xor eax, eax",
    "ret",
    // copy below 64 bytes: rdi, rsi, rdx
    ".p2align 4",
    "egeria_media_guard_copy_small:",
    "cmp rdx, 32",
    "jae 5f",
    "cmp rdx, 16",
    "jae 4f",
    "cmp rdx, 8",
    "jae 3f",
    "cmp rdx, 4",
    "jae 2f",
    "test rdx, rdx",
    "jz 7f",
    "movzx eax, byte ptr [rsi]",
    "cmp rdx, 2",
    "jb 6f",
    "movzx ecx, word ptr [rsi + rdx - 2]",
    "mov [rdi + rdx - 2], cx",
    "6:",
    "mov [rdi], al",
    "7:",
    "xor eax, eax",
    "ret",
    "2:",
    "mov eax, [rsi]",
    "mov ecx, [rsi + rdx - 4]",
    "mov [rdi], eax",
    "mov [rdi + rdx - 4], ecx",
    "xor eax, eax",
    "ret",
    "3:",
    "mov rax, [rsi]",
    "mov rcx, [rsi + rdx - 8]",
    "mov [rdi], rax",
    "mov [rdi + rdx - 8], rcx",
    "xor eax, eax",
    "ret",
    "4:",
    "movdqu xmm0, [rsi]",
    "movdqu xmm1, [rsi + rdx - 16]",
    "movdqu [rdi], xmm0",
    "movdqu [rdi + rdx - 16], xmm1",
    "xor eax, eax",
    "ret",
    "5:",
    "movdqu xmm0, [rsi]",
    "movdqu xmm1, [rsi + 16]",
    "movdqu xmm2, [rsi + rdx - 32]",
    "movdqu xmm3, [rsi + rdx - 16]",
    "movdqu [rdi], xmm0",
    "movdqu [rdi + 16], xmm1",
    "movdqu [rdi + rdx - 32], xmm2",
    "movdqu [rdi + rdx - 16], xmm3",
    "xor eax, eax",
    "ret",
    // copy by the CPU's own string instruction
    ".p2align 4",
    ".globl egeria_media_guard_copy_string",
    ".hidden egeria_media_guard_copy_string",
    "egeria_media_guard_copy_string:",
    "cmp rdx, 64",
    "jb egeria_media_guard_copy_small",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    // non-temporal copy in steps of 16: destination and bytes multiples of 64, bytes > 0
    ".p2align 4",
    ".globl egeria_media_guard_stream_sse",
    ".hidden egeria_media_guard_stream_sse",
    "egeria_media_guard_stream_sse:",
    "movdqu xmm0, [rsi]",
    "movdqu xmm1, [rsi + 16]",
    "movdqu xmm2, [rsi + 32]",
    "movdqu xmm3, [rsi + 48]",
    "movntdq [rdi], xmm0",
    "movntdq [rdi + 16], xmm1",
    "movntdq [rdi + 32], xmm2",
    "movntdq [rdi + 48], xmm3",
    "add rsi, 64",
    "add rdi, 64",
    "sub rdx, 64",
    "jnz egeria_media_guard_stream_sse",
    "xor eax, eax",
    "ret",
    // The following routines leave the upper halves of vector registers dirty.
    ".globl egeria_media_guard_avx",
    ".hidden egeria_media_guard_avx",
    ".p2align 6",
    "egeria_media_guard_avx:",
    // copy in steps of 32
    ".globl egeria_media_guard_copy_avx2",
    ".hidden egeria_media_guard_copy_avx2",
    "egeria_media_guard_copy_avx2:",
    "cmp rdx, 64",
    "jb egeria_media_guard_copy_small",
    // One unaligned step, then destinations are aligned: no store crosses a line.
    "vmovdqu ymm0, [rsi]",
    "vmovdqu [rdi], ymm0",
    "mov rax, rdi",
    "and eax, 31",
    "sub rax, 32",
    "add rdx, rax",
    "sub rdi, rax",
    "sub rsi, rax",
    "sub rdx, 128",
    "jb 3f",
    ".p2align 5",
    "2:",
    "vmovdqu ymm0, [rsi]",
    "vmovdqu ymm1, [rsi + 32]",
    "vmovdqu ymm2, [rsi + 64]",
    "vmovdqu ymm3, [rsi + 96]",
    "vmovdqa [rdi], ymm0",
    "vmovdqa [rdi + 32], ymm1",
    "vmovdqa [rdi + 64], ymm2",
    "vmovdqa [rdi + 96], ymm3",
    "sub rsi, -128",
    "sub rdi, -128",
    "sub rdx, 128",
    "jae 2b",
    "3:",
    "add rdx, 96",
    "js 5f",
    "4:",
    "vmovdqu ymm0, [rsi]",
    "vmovdqa [rdi], ymm0",
    "add rsi, 32",
    "add rdi, 32",
    "sub rdx, 32",
    "jae 4b",
    "5:",
    // -32..-1 means 0..31 bytes are left: the last 32 again, overlapping.
    "vmovdqu ymm0, [rsi + rdx]",
    "vmovdqu [rdi + rdx], ymm0",
    "vzeroupper",
    "xor eax, eax",
    "ret",
    // copy in steps of 64
    ".p2align 6",
    ".globl egeria_media_guard_copy_avx512",
    ".hidden egeria_media_guard_copy_avx512",
    "egeria_media_guard_copy_avx512:",
    "cmp rdx, 64",
    "jb egeria_media_guard_copy_small",
    "vmovdqu64 zmm16, [rsi]",
    "cmp rdx, 128",
    "ja 6f",
    "vmovdqu64 zmm17, [rsi + rdx - 64]",
    "vmovdqu64 [rdi], zmm16",
    "vmovdqu64 [rdi + rdx - 64], zmm17",
    "xor eax, eax",
    "ret",
    "6:",
    "mov rax, rdi",
    "and eax, 63",
    "jz 7f",
    "vmovdqu64 [rdi], zmm16",
    "sub rax, 64",
    "add rdx, rax",
    "sub rdi, rax",
    "sub rsi, rax",
    "7:",
    // Few instructions per line, because they also limit how many lines are in flight.
    "sub rdx, 512",
    "jb 3f",
    ".p2align 5",
    "2:",
    "vmovdqu64 zmm16, [rsi]",
    "vmovdqu64 zmm17, [rsi + 64]",
    "vmovdqu64 zmm18, [rsi + 128]",
    "vmovdqu64 zmm19, [rsi + 192]",
    "vmovdqu64 zmm20, [rsi + 256]",
    "vmovdqu64 zmm21, [rsi + 320]",
    "vmovdqu64 zmm22, [rsi + 384]",
    "vmovdqu64 zmm23, [rsi + 448]",
    "vmovdqa64 [rdi], zmm16",
    "vmovdqa64 [rdi + 64], zmm17",
    "vmovdqa64 [rdi + 128], zmm18",
    "vmovdqa64 [rdi + 192], zmm19",
    "vmovdqa64 [rdi + 256], zmm20",
    "vmovdqa64 [rdi + 320], zmm21",
    "vmovdqa64 [rdi + 384], zmm22",
    "vmovdqa64 [rdi + 448], zmm23",
    "add rsi, 512",
    "add rdi, 512",
    "sub rdx, 512",
    "jae 2b",
    "3:",
    "add rdx, 448",
    "js 5f",
    "4:",
    "vmovdqu64 zmm16, [rsi]",
    "vmovdqa64 [rdi], zmm16",
    "add rsi, 64",
    "add rdi, 64",
    "sub rdx, 64",
    "jae 4b",
    "5:",
    "vmovdqu64 zmm16, [rsi + rdx]",
    "vmovdqu64 [rdi + rdx], zmm16",
    "xor eax, eax",
    "ret",
    // non-temporal copies, as egeria_media_guard_stream_sse
    ".p2align 5",
    ".globl egeria_media_guard_stream_avx2",
    ".hidden egeria_media_guard_stream_avx2",
    "egeria_media_guard_stream_avx2:",
    "vmovdqu ymm0, [rsi]",
    "vmovdqu ymm1, [rsi + 32]",
    "vmovntdq [rdi], ymm0",
    "vmovntdq [rdi + 32], ymm1",
    "add rsi, 64",
    "add rdi, 64",
    "sub rdx, 64",
    "jnz egeria_media_guard_stream_avx2",
    "vzeroupper",
    "xor eax, eax",
    "ret",
    ".p2align 5",
    ".globl egeria_media_guard_stream_avx512",
    ".hidden egeria_media_guard_stream_avx512",
    "egeria_media_guard_stream_avx512:",
    "sub rdx, 512",
    "jb 3f",
    "2:",
    "vmovdqu64 zmm16, [rsi]",
    "vmovdqu64 zmm17, [rsi + 64]",
    "vmovdqu64 zmm18, [rsi + 128]",
    "vmovdqu64 zmm19, [rsi + 192]",
    "vmovdqu64 zmm20, [rsi + 256]",
    "vmovdqu64 zmm21, [rsi + 320]",
    "vmovdqu64 zmm22, [rsi + 384]",
    "vmovdqu64 zmm23, [rsi + 448]",
    "vmovntdq [rdi], zmm16",
    "vmovntdq [rdi + 64], zmm17",
    "vmovntdq [rdi + 128], zmm18",
    "vmovntdq [rdi + 192], zmm19",
    "vmovntdq [rdi + 256], zmm20",
    "vmovntdq [rdi + 320], zmm21",
    "vmovntdq [rdi + 384], zmm22",
    "vmovntdq [rdi + 448], zmm23",
    "add rsi, 512",
    "add rdi, 512",
    "sub rdx, 512",
    "jae 2b",
    "3:",
    "add rdx, 512",
    "jz 5f",
    "4:",
    "vmovdqu64 zmm16, [rsi]",
    "vmovntdq [rdi], zmm16",
    "add rsi, 64",
    "add rdi, 64",
    "sub rdx, 64",
    "jnz 4b",
    "5:",
    "xor eax, eax",
    "ret",
    ".globl egeria_media_guard_end",
    ".hidden egeria_media_guard_end",
    "egeria_media_guard_end:",
    ".popsection",
);

unsafe extern "C" {
    pub(super) fn egeria_media_guard_start();
    pub(super) fn egeria_media_guard_avx();
    pub(super) fn egeria_media_guard_end();
    pub(super) fn egeria_media_guard_end_sse();
    pub(super) fn egeria_media_guard_end_avx();
    pub(crate) fn egeria_media_guard_load(address: *const u8) -> Loaded;
    pub(crate) fn egeria_media_guard_store(address: *mut u8, value: u64) -> usize;
    pub(crate) fn egeria_media_guard_stream_word(address: *mut u8, value: u64) -> usize;
    pub(crate) fn egeria_media_guard_zero(address: *mut u8, bytes: usize) -> usize;
    pub(crate) fn egeria_media_guard_zero_stream(address: *mut u8, bytes: usize) -> usize;
    fn egeria_media_guard_clwb(line: *const u8, lines: usize) -> usize;
    fn egeria_media_guard_clflushopt(line: *const u8, lines: usize) -> usize;
    fn egeria_media_guard_clflush(line: *const u8, lines: usize) -> usize;
    fn egeria_media_guard_copy_string(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    fn egeria_media_guard_copy_avx2(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    fn egeria_media_guard_copy_avx512(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    fn egeria_media_guard_stream_sse(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    fn egeria_media_guard_stream_avx2(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    fn egeria_media_guard_stream_avx512(to: *mut u8, from: *const u8, bytes: usize) -> usize;
}

/// The routines that suit this CPU.
#[derive(Clone, Copy)]
pub(crate) struct Routines {
    /// Copies less than `string_bytes`.
    pub(crate) copy: Copy,
    /// Copies `string_bytes` and more.
    pub(crate) copy_large: Copy,
    /// Length from which the string instruction is faster.
    pub(crate) string_bytes: usize,
    /// The same where the destination is not in the caches: the string instruction does not read lines that it fills.
    pub(crate) string_store_bytes: usize,
    /// Non-temporal; destination and bytes multiples of 64, bytes > 0.
    pub(crate) stream: Copy,
    /// Writes lines back; lines > 0.
    pub(crate) flush: Flush,
}

/// How cache lines are written back here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushInstruction {
    /// Writes back, may keep the line.
    Clwb,
    /// Writes back and evicts, unordered.
    ClflushOpt,
    /// Writes back and evicts, ordered; every x86-64 CPU has it.
    Clflush,
}

/// Calls a copy routine. The routines use only a few registers, so that the caller's values can stay in the others: a
/// read has more live values than a C call preserves.
///
/// # Safety
/// `copy` is one of [`Routines`]; at most one side may be invalid memory, which becomes the answer.
#[inline(always)]
pub(crate) unsafe fn call_copy(copy: Copy, to: *mut u8, from: *const u8, bytes: usize) -> usize {
    // Code compiled for wider vectors may keep values where the routines work.
    #[cfg(target_feature = "avx")]
    // SAFETY: one of our routines; a fault on one side becomes its answer.
    return unsafe { copy(to, from, bytes) };
    #[cfg(not(target_feature = "avx"))]
    // SAFETY: one of our routines, on memory that this function's contract allows.
    unsafe {
        call_copy_lightly(copy, to, from, bytes)
    }
}

/// # Safety
/// As [`call_copy`].
#[cfg(not(target_feature = "avx"))]
#[inline(always)]
unsafe fn call_copy_lightly(copy: Copy, to: *mut u8, from: *const u8, bytes: usize) -> usize {
    let fault: usize;
    // SAFETY: a fault on one side becomes the answer; the routines use no stack and no registers but these.
    unsafe {
        asm!(
            "call {copy}",
            copy = in(reg) copy,
            inout("rdi") to => _,
            inout("rsi") from => _,
            inout("rdx") bytes => _,
            out("rcx") _,
            out("rax") fault,
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
        );
    }
    fault
}

/// Chosen once: by the CPU's features, and by measurement where there are several. Vectors beat `rep movsb` below 8
/// KiB (2 KiB with fast short strings) and lose above, because it does not read the lines it overwrites. Non-temporal
/// stores cost less than ordinary stores plus flushes from one line on.
pub(crate) fn routines() -> Routines {
    static CHOSEN: OnceLock<Routines> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let features = features();
        // Short fast strings identify the CPUs on which 512-bit moves do not slow down other code.
        let wide = features.fast_short_strings && is_x86_feature_detected!("avx512f");
        let (copy, stream): (Copy, Copy) = if wide {
            (
                egeria_media_guard_copy_avx512,
                egeria_media_guard_stream_avx512,
            )
        } else if is_x86_feature_detected!("avx2") {
            (egeria_media_guard_copy_avx2, egeria_media_guard_stream_avx2)
        } else {
            (
                egeria_media_guard_copy_string,
                egeria_media_guard_stream_sse,
            )
        };
        let (copy_large, string_bytes, string_store_bytes) = if features.fast_strings {
            let bytes = if features.fast_short_strings {
                2 << 10
            } else {
                8 << 10
            };
            (egeria_media_guard_copy_string as Copy, bytes, 2 << 10)
        } else {
            (copy, usize::MAX, usize::MAX)
        };
        let flush = flush_routine(flush_instruction());
        Routines {
            copy,
            copy_large,
            string_bytes,
            string_store_bytes,
            stream,
            flush,
        }
    })
}

/// The best flush instruction this CPU has.
pub fn flush_instruction() -> FlushInstruction {
    let features = features();
    if features.clwb {
        FlushInstruction::Clwb
    } else if features.clflushopt {
        FlushInstruction::ClflushOpt
    } else {
        FlushInstruction::Clflush
    }
}

fn flush_routine(instruction: FlushInstruction) -> Flush {
    match instruction {
        FlushInstruction::Clwb => egeria_media_guard_clwb,
        FlushInstruction::ClflushOpt => egeria_media_guard_clflushopt,
        FlushInstruction::Clflush => egeria_media_guard_clflush,
    }
}

/// Orders all earlier flushes and non-temporal stores before later stores.
#[inline]
pub(crate) fn store_fence() {
    // SAFETY: sfence has no operands and no effect but ordering.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}

/// Every copy, non-temporal copy and flush routine this CPU can run, for tests.
#[cfg(test)]
pub(crate) fn all() -> (Vec<Copy>, Vec<Copy>, Vec<Flush>) {
    let mut copies: Vec<Copy> = vec![egeria_media_guard_copy_string];
    let mut streams: Vec<Copy> = vec![egeria_media_guard_stream_sse];
    let mut flushes: Vec<Flush> = vec![egeria_media_guard_clflush];
    if is_x86_feature_detected!("avx2") {
        copies.push(egeria_media_guard_copy_avx2);
        streams.push(egeria_media_guard_stream_avx2);
    }
    if is_x86_feature_detected!("avx512f") {
        copies.push(egeria_media_guard_copy_avx512);
        streams.push(egeria_media_guard_stream_avx512);
    }
    if features().clflushopt {
        flushes.push(egeria_media_guard_clflushopt);
    }
    if features().clwb {
        flushes.push(egeria_media_guard_clwb);
    }
    (copies, streams, flushes)
}
