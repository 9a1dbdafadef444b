/* What a library must not have: variables of threads that need a place from before the program began, and more of them
   than the loader keeps places for. */
__thread char of_each_thread[1 << 20] __attribute__((tls_model("initial-exec")));

char* OfThisThread(void) { return of_each_thread; }
