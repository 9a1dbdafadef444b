// SPDX-License-Identifier: Apache-2.0
/* A C program that loads libraries at run time: all of them, and then all of them again.
   usage: load_libraries LIBRARY... */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** arguments) {
  int round;
  int i;
  for (round = 0; round < 2; ++round) {
    for (i = 1; i < count; ++i) {
      if (dlopen(arguments[i], RTLD_NOW | RTLD_LOCAL) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
      }
    }
  }
  puts("loaded");
  return 0;
}
