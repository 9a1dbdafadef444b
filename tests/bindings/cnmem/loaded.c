// SPDX-License-Identifier: Apache-2.0
/* A program that loads the library at run time, as scripting languages do, several times. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int count, char** arguments) {
  int round;
  if (count != 2) return 2;
  for (round = 0; round < 2; ++round) {
    const char* (*name_of)(int) = NULL;
    int (*release)(void) = NULL;
    void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    void* found;
    if (library == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    found = dlsym(library, "cnmemGetErrorString");
    memcpy(&name_of, &found, sizeof found);
    found = dlsym(library, "cnmemRelease");
    memcpy(&release, &found, sizeof found);
    if (name_of == NULL || release == NULL) return 1;
    if (strcmp(name_of(release()), "CNMEM_STATUS_NOT_INITIALIZED") != 0) return 1;
    dlclose(library);
  }
  puts("loaded");
  return 0;
}
