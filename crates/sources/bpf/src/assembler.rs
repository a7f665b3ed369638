//! Instructions of the kernel's virtual machine, and jumps between them.

/// A register: `R1` to `R5` are arguments and are lost in calls, `R6` to `R9` are kept, `R10` is the end of the stack.
pub(crate) type Register = u8;
pub(crate) const R0: Register = 0;
pub(crate) const R1: Register = 1;
pub(crate) const R2: Register = 2;
pub(crate) const R3: Register = 3;
pub(crate) const R4: Register = 4;
pub(crate) const R6: Register = 6;
pub(crate) const R7: Register = 7;
pub(crate) const R8: Register = 8;
pub(crate) const R9: Register = 9;
pub(crate) const R10: Register = 10;

/// Bytes of a load or store.
#[derive(Clone, Copy)]
pub(crate) enum Width {
    Two,
    Four,
    Eight,
}

impl Width {
    fn bits(self) -> u8 {
        match self {
            Width::Four => 0x00,
            Width::Two => 0x08,
            Width::Eight => 0x18,
        }
    }

    pub(crate) fn bytes(self) -> i32 {
        match self {
            Width::Two => 2,
            Width::Four => 4,
            Width::Eight => 8,
        }
    }
}

/// A place to jump to, further on: loops need none here.
#[derive(Clone, Copy)]
pub(crate) struct Label(usize);

/// A program as it grows.
#[derive(Default)]
pub(crate) struct Assembler {
    instructions: Vec<[u8; 8]>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label is here.
    pub(crate) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    fn emit(&mut self, code: u8, to: Register, from: Register, offset: i16, value: i32) {
        let mut bytes = [code, to | from << 4, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        bytes[4..].copy_from_slice(&value.to_ne_bytes());
        self.instructions.push(bytes);
    }

    pub(crate) fn set(&mut self, to: Register, value: i32) {
        self.emit(0xb7, to, 0, 0, value);
    }

    pub(crate) fn copy(&mut self, to: Register, from: Register) {
        self.emit(0xbf, to, from, 0, 0);
    }

    /// The lower half; the upper becomes 0.
    pub(crate) fn copy_half(&mut self, to: Register, from: Register) {
        self.emit(0xbc, to, from, 0, 0);
    }

    pub(crate) fn add(&mut self, to: Register, value: i32) {
        self.emit(0x07, to, 0, 0, value);
    }

    pub(crate) fn add_register(&mut self, to: Register, from: Register) {
        self.emit(0x0f, to, from, 0, 0);
    }

    pub(crate) fn and(&mut self, to: Register, value: i32) {
        self.emit(0x57, to, 0, 0, value);
    }

    pub(crate) fn shift_left(&mut self, to: Register, bits: i32) {
        self.emit(0x67, to, 0, 0, bits);
    }

    pub(crate) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.emit(0x61 | width.bits(), to, from, offset, 0);
    }

    pub(crate) fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        self.emit(0x63 | width.bits(), to, from, offset, 0);
    }

    pub(crate) fn store_value(&mut self, width: Width, to: Register, offset: i16, value: i32) {
        self.emit(0x62 | width.bits(), to, 0, offset, value);
    }

    /// The address of a map, by its descriptor.
    pub(crate) fn map(&mut self, to: Register, descriptor: i32) {
        self.emit(0x18, to, 1, 0, descriptor);
        self.emit(0, 0, 0, 0, 0);
    }

    pub(crate) fn call(&mut self, helper: i32) {
        self.emit(0x85, 0, 0, 0, helper);
    }

    pub(crate) fn exit(&mut self) {
        self.emit(0x95, 0, 0, 0, 0);
    }

    fn jump_by(&mut self, code: u8, register: Register, value: i32, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.emit(code, register, 0, 0, value);
    }

    pub(crate) fn jump(&mut self, to: Label) {
        self.jump_by(0x05, 0, 0, to);
    }

    pub(crate) fn jump_if_equal(&mut self, register: Register, value: i32, to: Label) {
        self.jump_by(0x15, register, value, to);
    }

    pub(crate) fn jump_unless_equal(&mut self, register: Register, value: i32, to: Label) {
        self.jump_by(0x55, register, value, to);
    }

    /// As signed numbers.
    pub(crate) fn jump_if_at_most(&mut self, register: Register, value: i32, to: Label) {
        self.jump_by(0xd5, register, value, to);
    }

    /// The instructions, with where jumps go.
    pub(crate) fn finish(mut self) -> Vec<[u8; 8]> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label has a place");
            let distance = i16::try_from(target - at - 1).expect("programs are short");
            self.instructions[at][2..4].copy_from_slice(&distance.to_ne_bytes());
        }
        self.instructions
    }
}
