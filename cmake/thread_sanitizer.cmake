# Lets ThreadSanitizer see the locks of a packaged Abseil (tests/support/thread_sanitizer/abseil_mutex.cc).
# Without it every variable that an absl::Mutex guards is reported as a race.
# A shared library: a static one would have to export the wrappers from each library that hides its symbols.
if(NOT TIDEPOOL_SANITIZE MATCHES "thread")
  return()
endif()
get_target_property(absl_include absl::base INTERFACE_INCLUDE_DIRECTORIES)
find_file(TIDEPOOL_ABSL_OPTIONS absl/base/options.h HINTS ${absl_include} REQUIRED)
file(STRINGS ${TIDEPOOL_ABSL_OPTIONS} line REGEX "^#define ABSL_OPTION_INLINE_NAMESPACE_NAME ")
string(REGEX REPLACE "^.* " "" name "${line}")
string(LENGTH "${name}" length)
set(prefix _ZN4absl${length}${name})

add_library(tidepool_thread_sanitizer SHARED ${PROJECT_SOURCE_DIR}/tests/support/thread_sanitizer/abseil_mutex.cc)
target_compile_features(tidepool_thread_sanitizer PRIVATE cxx_std_20)
target_compile_options(tidepool_thread_sanitizer PRIVATE -fsanitize=thread)
target_link_options(tidepool_thread_sanitizer PRIVATE -fsanitize=thread)
target_compile_definitions(tidepool_thread_sanitizer PRIVATE TIDEPOOL_ABSL_PREFIX=${prefix})
set_target_properties(tidepool_thread_sanitizer PROPERTIES
  CXX_VISIBILITY_PRESET default UNITY_BUILD OFF)
target_link_libraries(tidepool_thread_sanitizer PUBLIC absl::synchronization absl::time)
target_link_libraries(tidepool_flags INTERFACE tidepool_thread_sanitizer)
foreach(function 5Mutex4LockEv 5Mutex7TryLockEv 5Mutex6UnlockEv 5Mutex10ReaderLockEv 5Mutex13ReaderTryLockEv
        5Mutex12ReaderUnlockEv 5Mutex8LockWhenERKNS0_9ConditionE 5Mutex5AwaitERKNS0_9ConditionE
        5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE 5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE
        7CondVar4WaitEPNS0_5MutexE 7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE
        7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)
  target_link_options(tidepool_flags INTERFACE -Wl,--wrap=${prefix}${function})
  target_link_options(tidepool_thread_sanitizer PRIVATE -Wl,--wrap=${prefix}${function})
endforeach()
