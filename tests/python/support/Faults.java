/** Faults that Java's own handlers turn into exceptions, in compiled code, and then one of C. */
public class Faults {
    int value;
    static volatile int sink;
    static volatile boolean stop;

    static native void crash();

    static int get(Faults from) {
        return from.value;
    }

    static int divide(int by) {
        return 7 / by;
    }

    static int deeper(int depth) {
        return deeper(depth + 1) + 1;
    }

    /** Often enough for the compiler: only its code leaves the checks to faults. */
    static void raiseAll() {
        int nulls = 0, zeros = 0, overflows = 0;
        Faults some = new Faults();

        for (int i = 0; i < 100000; i++) {
            boolean wrong = i % 50000 == 49999;
            try {
                sink += get(wrong ? null : some);
            } catch (NullPointerException e) {
                nulls++;
            }
            try {
                sink += divide(wrong ? 0 : 3);
            } catch (ArithmeticException e) {
                zeros++;
            }
        }
        try {
            deeper(0);
        } catch (StackOverflowError e) {
            overflows++;
        }
        System.out.println("raised " + nulls + " " + zeros + " " + overflows);
    }

    static void spin() {
        while (!stop)
            sink++;
    }

    static void run(boolean crashes) throws InterruptedException {
        Thread spinner = new Thread(Faults::spin, "spinner"), other = new Thread(Faults::raiseAll);

        spinner.setDaemon(true);
        spinner.start();
        other.start();
        other.join();
        raiseAll();
        System.gc(); /* stops the threads at safepoints, by faults */
        if (crashes)
            crash();
        stop = true;
    }
}
