/* SPDX-License-Identifier: Apache-2.0 */
/* A process that forks after it has made a pool, while a region of it sleeps: in the child every call fails at once, and a pool of
   its own works. In the parent the region wakes with its contents.
   usage: forked DEVICE */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tidepool/c_api.h>
#include <unistd.h>

/* Returns 0 if calls on the parent's pool fail with a clear text, and the number of a wrong call otherwise. */
static int use_in_child(tidepool_pool* pool, void* address) {
  void* other = address;
  tidepool_pool* own = NULL;
  alarm(30); /* ends a child that waits for threads which it does not have */
  if (tidepool_allocate(pool, 100, NULL, TIDEPOOL_RESIDENT, &other) != TIDEPOOL_FAILED_PRECONDITION) return 1;
  if (other != NULL || strstr(tidepool_last_error(), "forked") == NULL) return 2;
  if (tidepool_free(pool, address, NULL) != TIDEPOOL_FAILED_PRECONDITION) return 3;
  if (tidepool_trim(pool, 0, NULL) != TIDEPOOL_FAILED_PRECONDITION) return 4;
  if (tidepool_stop_trace(pool) != TIDEPOOL_FAILED_PRECONDITION) return 5;
  if (tidepool_pool_destroy(pool) != TIDEPOOL_FAILED_PRECONDITION) return 6;
  if (tidepool_resume(pool, "weights", NULL) != TIDEPOOL_FAILED_PRECONDITION) return 11;
  if (tidepool_discard_contents(pool, "weights") != TIDEPOOL_FAILED_PRECONDITION) return 12;
  if (tidepool_pool_create("device=host", &own) != TIDEPOOL_OK) return 7;
  if (tidepool_allocate(own, 100, NULL, TIDEPOOL_RESIDENT, &other) != TIDEPOOL_OK) return 8;
  if (tidepool_free(own, other, NULL) != TIDEPOOL_OK) return 9;
  return tidepool_pool_destroy(own) == TIDEPOOL_OK ? 0 : 10;
}

int main(int count, char** arguments) {
  tidepool_pool* pool = NULL;
  void* address = NULL;
  void* weights = NULL;
  char options[200];
  int status = 0;
  pid_t forked;
  if (count != 2) return 101;
  snprintf(options, sizeof options, "device=%s", arguments[1]);
  if (tidepool_pool_create(options, &pool) != TIDEPOOL_OK) return 102;
  if (tidepool_allocate(pool, 1000, NULL, TIDEPOOL_RESIDENT, &address) != TIDEPOOL_OK) return 103;
  if (tidepool_allocate_in(pool, "weights", 1000, NULL, TIDEPOOL_RESIDENT, &weights) != TIDEPOOL_OK) return 107;
  memset(weights, 7, 1000); /* the host reaches the memory of both devices */
  if (tidepool_pause(pool, "weights", TIDEPOOL_PAUSE_HOST, NULL) != TIDEPOOL_OK) return 108;
  if (tidepool_trim(pool, 0, NULL) != TIDEPOOL_OK) return 113; /* so that the contents must come back */
  forked = fork();
  if (forked == 0) exit(use_in_child(pool, address));
  if (forked < 0 || waitpid(forked, &status, 0) != forked || status != 0) {
    printf("the child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    return 104;
  }
  if (tidepool_resume(pool, "weights", NULL) != TIDEPOOL_OK) return 109;
  if (tidepool_stream_synchronize(pool, NULL) != TIDEPOOL_OK) return 110;
  if (((char*)weights)[0] != 7 || ((char*)weights)[999] != 7) return 111;
  if (tidepool_free(pool, weights, NULL) != TIDEPOOL_OK) return 112;
  if (tidepool_free(pool, address, NULL) != TIDEPOOL_OK) return 105;
  return tidepool_pool_destroy(pool) == TIDEPOOL_OK ? 0 : 106;
}
