// A Java program that obeys, accounts and checks itself: the JVM's own SIGSEGV and SIGFPE, guard pages, safepoints, young threads.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;
import sun.misc.Unsafe;

public class Resist {
	static final class Box {
		int value;
		Box next;
	}

	static final Unsafe UNSAFE = unsafe();
	static final long CELL = UNSAFE.allocateMemory(64);
	static final Object LOCK = new Object();
	static final AtomicLong ERRORS = new AtomicLong();
	static final AtomicLong[] ROUNDS = { new AtomicLong(), new AtomicLong(), new AtomicLong() };
	static volatile boolean stopping;
	static int depth;

	static Unsafe unsafe() {
		try {
			Field f = Unsafe.class.getDeclaredField("theUnsafe");
			f.setAccessible(true);
			return (Unsafe)f.get(null);
		} catch (ReflectiveOperationException e) {
			throw new AssertionError(e);
		}
	}

	static void hit(long n) {
		for (long i = 0; i < n; i++)
			synchronized (LOCK) {
				UNSAFE.putLongVolatile(null, CELL, UNSAFE.getLong(CELL) + 1); // C2 would make one of several
			}
	}

	static int field(Box b) {
		return b.value; // of null: a load that faults
	}

	static int quotient(int a, int b) {
		return a / b; // by zero: an instruction that faults
	}

	static int deeper(int n) {
		depth = n;
		return deeper(n + 1) + 1;
	}

	static void check(boolean right) {
		if (!right)
			ERRORS.incrementAndGet();
	}

	static void faults() {
		int nulls = 0, zeros = 0;
		for (int i = 1; i <= 300; i++) {
			try {
				field(i % 3 == 0 ? null : new Box());
			} catch (NullPointerException e) {
				nulls++;
			}
			try {
				quotient(i, i % 2);
			} catch (ArithmeticException e) {
				zeros++;
			}
		}
		check(nulls == 100 && zeros == 150);
	}

	static void overflows() {
		try {
			deeper(0);
			check(false);
		} catch (StackOverflowError e) {
			check(depth > 500);
		}
	}

	static void garbage() {
		Box head = null;
		for (int i = 0; i < 5000; i++) {
			Box b = new Box();
			b.value = i;
			b.next = head;
			head = b;
		}
		System.gc(); // a safepoint, and all objects move
		long sum = 0;
		for (Box b = head; b != null; b = b.next)
			sum += b.value;
		check(sum == 5000L * 4999 / 2);
	}

	static void births() {
		long[] result = new long[1];
		Thread t = new Thread(() -> {
			CRC32 crc = new CRC32();
			crc.update(new byte[5000]);
			result[0] = crc.getValue();
		});
		t.start();
		try {
			long begin = System.nanoTime();
			t.join();
			Thread.sleep(2);
			check(System.nanoTime() - begin >= 2000000);
		} catch (InterruptedException e) {
			check(false);
		}
		check(result[0] == 3638890152L);
	}

	static Thread repeat(int number, Runnable what) {
		Thread t = new Thread(null, () -> {
			while (!stopping) {
				what.run();
				ROUNDS[number].incrementAndGet();
				try {
					Thread.sleep(5);
				} catch (InterruptedException e) {
					check(false);
				}
			}
		}, "resist-" + number, 512 << 10);
		t.start();
		return t;
	}

	public static void main(String[] args) throws Exception {
		UNSAFE.putLong(CELL, 0);
		Thread[] threads = { repeat(0, Resist::faults), repeat(1, Resist::births), repeat(2, () -> {
			overflows();
			garbage();
		}) };
		System.out.println("pid " + ProcessHandle.current().pid() + " 0x" + Long.toHexString(CELL));
		BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
		for (String line; (line = in.readLine()) != null;) {
			String[] words = line.split(" ");
			if (words[0].equals("hit")) {
				long n = Long.parseLong(words[1]);
				Thread other = new Thread(() -> hit(n / 2));
				other.start();
				hit(n - n / 2);
				other.join();
				System.out.println("ok " + UNSAFE.getLong(CELL));
			} else if (words[0].equals("check")) {
				long rounds = Math.min(ROUNDS[0].get(), Math.min(ROUNDS[1].get(), ROUNDS[2].get()));
				System.out.println("ok " + rounds + " " + ERRORS.get());
			} else {
				break;
			}
		}
		stopping = true;
		for (Thread t : threads)
			t.join();
		System.out.println("bye " + UNSAFE.getLong(CELL) + " " + ERRORS.get());
		System.exit(7);
	}
}
