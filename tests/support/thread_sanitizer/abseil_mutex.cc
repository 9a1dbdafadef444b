// Tells ThreadSanitizer about absl::Mutex. A packaged Abseil is compiled without the sanitizer,
// which then sees no locks and reports every guarded variable as a race. The linker replaces our
// calls of the functions below (option --wrap) by functions that announce the lock and make the
// call.
//
// Abseil evaluates conditions (Await, LockWhen) on the thread that unlocks. The sanitizer ignores
// memory accesses between pre_unlock and post_unlock, so they are no false races.
#include <sanitizer/tsan_interface.h>

#include <type_traits>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

// TIDEPOOL_ABSL_PREFIX: how mangled names of the namespace absl begin, inline namespace included.
#define TIDEPOOL_JOIN_(a, b, c) a##b##c
#define TIDEPOOL_JOIN(a, b, c) TIDEPOOL_JOIN_(a, b, c)
#define TIDEPOOL_WRAP(name) TIDEPOOL_JOIN(__wrap_, TIDEPOOL_ABSL_PREFIX, name)
#define TIDEPOOL_REAL(name) TIDEPOOL_JOIN(__real_, TIDEPOOL_ABSL_PREFIX, name)

namespace {

// Announces a call that locks `mutex`, and makes it.
template <typename Call>
auto Lock(absl::Mutex* mutex, unsigned flags, Call call) {
  __tsan_mutex_pre_lock(mutex, flags);
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    __tsan_mutex_post_lock(mutex, flags, 0);
  } else {
    const auto result = call();
    __tsan_mutex_post_lock(mutex, flags, 0);
    return result;
  }
}

bool TryLock(absl::Mutex* mutex, unsigned flags, bool (*call)(absl::Mutex*)) {
  flags |= __tsan_mutex_try_lock;
  __tsan_mutex_pre_lock(mutex, flags);
  const bool is_locked = call(mutex);
  __tsan_mutex_post_lock(mutex, is_locked ? flags : flags | __tsan_mutex_try_lock_failed, 0);
  return is_locked;
}

void Unlock(absl::Mutex* mutex, unsigned flags, void (*call)(absl::Mutex*)) {
  __tsan_mutex_pre_unlock(mutex, flags);
  call(mutex);
  __tsan_mutex_post_unlock(mutex, flags);
}

// Announces a call that unlocks `mutex`, waits, and locks it again.
template <typename Call>
auto Wait(absl::Mutex* mutex, Call call) {
  __tsan_mutex_pre_unlock(mutex, 0);
  __tsan_mutex_post_unlock(mutex, 0);
  return Lock(mutex, 0, call);
}

}  // namespace

// Member functions take the object as their first argument.
extern "C" {

void TIDEPOOL_REAL(5Mutex4LockEv)(absl::Mutex*);
void TIDEPOOL_WRAP(5Mutex4LockEv)(absl::Mutex* mutex) {
  Lock(mutex, 0, [&] { TIDEPOOL_REAL(5Mutex4LockEv)(mutex); });
}

bool TIDEPOOL_REAL(5Mutex7TryLockEv)(absl::Mutex*);
bool TIDEPOOL_WRAP(5Mutex7TryLockEv)(absl::Mutex* mutex) {
  return TryLock(mutex, 0, TIDEPOOL_REAL(5Mutex7TryLockEv));
}

void TIDEPOOL_REAL(5Mutex6UnlockEv)(absl::Mutex*);
void TIDEPOOL_WRAP(5Mutex6UnlockEv)(absl::Mutex* mutex) {
  Unlock(mutex, 0, TIDEPOOL_REAL(5Mutex6UnlockEv));
}

void TIDEPOOL_REAL(5Mutex10ReaderLockEv)(absl::Mutex*);
void TIDEPOOL_WRAP(5Mutex10ReaderLockEv)(absl::Mutex* mutex) {
  Lock(mutex, __tsan_mutex_read_lock, [&] { TIDEPOOL_REAL(5Mutex10ReaderLockEv)(mutex); });
}

bool TIDEPOOL_REAL(5Mutex13ReaderTryLockEv)(absl::Mutex*);
bool TIDEPOOL_WRAP(5Mutex13ReaderTryLockEv)(absl::Mutex* mutex) {
  return TryLock(mutex, __tsan_mutex_read_lock, TIDEPOOL_REAL(5Mutex13ReaderTryLockEv));
}

void TIDEPOOL_REAL(5Mutex12ReaderUnlockEv)(absl::Mutex*);
void TIDEPOOL_WRAP(5Mutex12ReaderUnlockEv)(absl::Mutex* mutex) {
  Unlock(mutex, __tsan_mutex_read_lock, TIDEPOOL_REAL(5Mutex12ReaderUnlockEv));
}

void TIDEPOOL_REAL(5Mutex8LockWhenERKNS0_9ConditionE)(absl::Mutex*, const absl::Condition&);
void TIDEPOOL_WRAP(5Mutex8LockWhenERKNS0_9ConditionE)(absl::Mutex* mutex,
                                                      const absl::Condition& condition) {
  Lock(mutex, 0, [&] { TIDEPOOL_REAL(5Mutex8LockWhenERKNS0_9ConditionE)(mutex, condition); });
}

void TIDEPOOL_REAL(5Mutex5AwaitERKNS0_9ConditionE)(absl::Mutex*, const absl::Condition&);
void TIDEPOOL_WRAP(5Mutex5AwaitERKNS0_9ConditionE)(absl::Mutex* mutex,
                                                   const absl::Condition& condition) {
  Wait(mutex, [&] { TIDEPOOL_REAL(5Mutex5AwaitERKNS0_9ConditionE)(mutex, condition); });
}

bool TIDEPOOL_REAL(5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE)(absl::Mutex*,
                                                                             const absl::Condition&,
                                                                             absl::Duration);
bool TIDEPOOL_WRAP(5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE)(
    absl::Mutex* mutex, const absl::Condition& condition, absl::Duration timeout) {
  return Wait(mutex, [&] {
    return TIDEPOOL_REAL(5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE)(mutex, condition,
                                                                                   timeout);
  });
}

bool TIDEPOOL_REAL(5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE)(absl::Mutex*,
                                                                          const absl::Condition&,
                                                                          absl::Time);
bool TIDEPOOL_WRAP(5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE)(
    absl::Mutex* mutex, const absl::Condition& condition, absl::Time deadline) {
  return Wait(mutex, [&] {
    return TIDEPOOL_REAL(5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE)(mutex, condition,
                                                                                deadline);
  });
}

void TIDEPOOL_REAL(7CondVar4WaitEPNS0_5MutexE)(absl::CondVar*, absl::Mutex*);
void TIDEPOOL_WRAP(7CondVar4WaitEPNS0_5MutexE)(absl::CondVar* self, absl::Mutex* mutex) {
  Wait(mutex, [&] { TIDEPOOL_REAL(7CondVar4WaitEPNS0_5MutexE)(self, mutex); });
}

bool TIDEPOOL_REAL(7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(absl::CondVar*,
                                                                         absl::Mutex*,
                                                                         absl::Duration);
bool TIDEPOOL_WRAP(7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(absl::CondVar* self,
                                                                         absl::Mutex* mutex,
                                                                         absl::Duration timeout) {
  return Wait(mutex, [&] {
    return TIDEPOOL_REAL(7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(self, mutex,
                                                                               timeout);
  });
}

bool TIDEPOOL_REAL(7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(absl::CondVar*, absl::Mutex*,
                                                                      absl::Time);
bool TIDEPOOL_WRAP(7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(absl::CondVar* self,
                                                                      absl::Mutex* mutex,
                                                                      absl::Time deadline) {
  return Wait(mutex, [&] {
    return TIDEPOOL_REAL(7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(self, mutex, deadline);
  });
}

}  // extern "C"
