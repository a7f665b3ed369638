# program: OpenJDK (NIO, mapped buffers)
# kind: languages
# needs: javac java jar
# debian: default-jdk-headless
# checks: bytes by channels, mapped buffers, locks and copies of a program, compiled and packed into a jar there

version() {
    java -version 2>&1 | awk 'NR == 1 { print $3 }' | tr -d '"'
}

prepare() {
    cat >Tried.java <<'JAVA'
import java.io.*;
import java.nio.*;
import java.nio.channels.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import static java.nio.file.StandardOpenOption.*;

public class Tried {
    static void need(boolean holds, String what) {
        if (!holds) throw new IllegalStateException(what);
    }

    public static void main(String[] words) throws Exception {
        Path mapped = Path.of("mapped");
        int size = 32 << 20;
        try (FileChannel channel = FileChannel.open(mapped, CREATE, READ, WRITE)) {
            MappedByteBuffer buffer = channel.map(FileChannel.MapMode.READ_WRITE, 0, size);
            for (int i = 0; i < size; i += 8) buffer.putLong(i, i * 31L);
            buffer.force();
            ByteBuffer read = ByteBuffer.allocateDirect(4096);
            channel.read(read, 4096 * 100);
            need(read.getLong(0) == 4096 * 100 * 31L, "a read sees the mapping");
            ByteBuffer one = ByteBuffer.allocate(8).putLong(0, -1L);
            channel.write(one, 8);
            need(buffer.getLong(8) == -1L, "the mapping sees a write");
            try (FileLock lock = channel.lock(0, 100, false)) {
                need(lock.isValid(), "a lock");
            }
            try (FileChannel to = FileChannel.open(Path.of("copied"), CREATE, WRITE)) {
                need(channel.transferTo(0, size, to) == size, "transferTo");
            }
        }
        need(Files.mismatch(mapped, Path.of("copied")) == -1, "the copy is the same");
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<?>> all = new ArrayList<>();
        for (int worker = 0; worker < 4; worker++) {
            final int mine = worker;
            all.add(pool.submit(() -> {
                for (int n = 0; n < 300; n++) {
                    Path file = Path.of("files", mine + "-" + n);
                    Files.createDirectories(file.getParent());
                    Path fresh = Path.of("files", mine + "-" + n + ".new");
                    Files.writeString(fresh, "text " + n + "\n".repeat(n));
                    Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
                    need(Files.readString(file).startsWith("text " + n), "the text of " + file);
                }
                return null;
            }));
        }
        for (Future<?> one : all) one.get();
        pool.shutdown();
        try (var entries = Files.walk(Path.of("files"))) {
            need(entries.filter(Files::isRegularFile).count() == 1200, "all files");
        }
        try (AsynchronousFileChannel channel = AsynchronousFileChannel.open(Path.of("asynchronous"), CREATE, READ, WRITE)) {
            List<Future<Integer>> writes = new ArrayList<>();
            for (int n = 0; n < 100; n++)
                writes.add(channel.write(ByteBuffer.wrap(new byte[4096]).put(0, (byte) n), n * 4096L));
            for (Future<Integer> one : writes) need(one.get() == 4096, "an asynchronous write");
        }
        try (RandomAccessFile file = new RandomAccessFile("random", "rw")) {
            file.setLength(1 << 20);
            file.seek(1000);
            file.writeUTF("hello");
            file.seek(1000);
            need(file.readUTF().equals("hello"), "RandomAccessFile");
        }
        UserDefined.check(mapped);
        System.out.println("done");
    }

    static class UserDefined {
        static void check(Path file) throws IOException {
            var view = Files.getFileAttributeView(file, java.nio.file.attribute.UserDefinedFileAttributeView.class);
            if (view == null) return;
            try {
                view.write("tried", ByteBuffer.wrap("yes".getBytes()));
            } catch (FileSystemException refused) {
                return; // tmpfs before Linux 6.6
            }
            need(view.list().contains("tried"), "an extended attribute");
        }
    }
}
JAVA
}

work() {
    javac -d classes "$INPUT/Tried.java"
    jar --create --file tried.jar --main-class Tried -C classes .
    java -Xmx256m -jar tried.jar >said
}

check() {
    [ "$(cat said)" = done ] || fail "the program did not end well"
    cmp mapped copied
    [ "$(wc -c <asynchronous)" = 409600 ] || fail "asynchronous writes are missing"
    jar --list --file tried.jar | grep -q Tried.class
}
