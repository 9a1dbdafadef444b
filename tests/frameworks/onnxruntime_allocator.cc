// SPDX-License-Identifier: Apache-2.0
// A session of ONNX Runtime that allocates by the environment's allocator, a pool of host memory.
// usage: onnxruntime_allocator MODEL
#include <onnxruntime_c_api.h>

#include <cstring>
#include <string>
#include <vector>

#include "expect.h"
#include "tidepool/ort_allocator.h"

namespace {

const OrtApi& Api() {
  static const OrtApi* const api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (api == nullptr) {
    std::fprintf(stderr, "the headers have API version %d, which this library is too old for\n",
                 ORT_API_VERSION);
    std::exit(1);
  }
  return *api;
}

void Check(OrtStatus* status) {
  if (status == nullptr) return;
  std::fprintf(stderr, "%s\n", Api().GetErrorMessage(status));
  std::exit(1);
}

OrtSession* NewSession(OrtEnv* environment, const char* model) {
  OrtSessionOptions* options = nullptr;
  OrtSession* session = nullptr;
  Check(Api().CreateSessionOptions(&options));
  Check(Api().AddSessionConfigEntry(options, "session.use_env_allocators", "1"));
  Check(Api().DisableMemPattern(options));
  Check(Api().SetSessionGraphOptimizationLevel(options, ORT_DISABLE_ALL));
  Check(Api().CreateSession(environment, model, options, &session));
  Api().ReleaseSessionOptions(options);
  return session;
}

// Runs z = 3 x with memory of the session's allocator. Returns null, or the error.
OrtStatus* Run(OrtSession* session, const tidepool::OrtPoolAllocator& allocator) {
  std::vector<float> numbers(100'000, 2);
  const std::int64_t shape = 100'000;
  OrtMemoryInfo* host = nullptr;
  OrtValue* x = nullptr;
  OrtValue* z = nullptr;
  Check(Api().CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &host));
  Check(Api().CreateTensorWithDataAsOrtValue(host, numbers.data(), numbers.size() * sizeof(float),
                                             &shape, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x));
  const char* const input = "x";
  const char* const output = "z";
  OrtStatus* const status = Api().Run(session, nullptr, &input, &x, 1, &output, 1, &z);
  if (status == nullptr) {
    float* sums = nullptr;
    int owns = 0;
    Check(Api().GetTensorMutableData(z, reinterpret_cast<void**>(&sums)));
    EXPECT(sums[0] == 6 && sums[99'999] == 6);
    EXPECT(tidepool_owns(allocator.pool(), sums, &owns) == TIDEPOOL_OK && owns == 1);
    Api().ReleaseValue(z);
  }
  Api().ReleaseValue(x);
  Api().ReleaseMemoryInfo(host);
  return status;
}

std::string ValueOf(tidepool::OrtPoolAllocator& allocator, const char* key) {
  OrtKeyValuePairs* pairs = nullptr;
  Check(allocator.GetStats(&allocator, &pairs));
  const std::string value = Api().GetKeyValue(pairs, key);
  Api().ReleaseKeyValuePairs(pairs);
  return value;
}

}  // namespace

int main(int count, char** arguments) {
  EXPECT(count == 2);
  OrtEnv* environment = nullptr;
  Check(Api().CreateEnv(ORT_LOGGING_LEVEL_FATAL, "test", &environment));
  {
    // [ort]
    tidepool::OrtPoolAllocator allocator(Api(), "device=host,budget=2MiB,memory=segments");
    Check(Api().RegisterAllocator(environment, &allocator));
    // [/ort]
    OrtSession* const session = NewSession(environment, arguments[1]);
    for (int i = 0; i < 3; ++i) Check(Run(session, allocator));
    EXPECT(StatisticsOf(allocator.pool()).allocations >= 6);
    EXPECT(StatisticsOf(allocator.pool()).live_count == 0);
    EXPECT(ValueOf(allocator, "Limit") == "2097152" && ValueOf(allocator, "InUse") == "0");
    void* const address = allocator.AllocOnStream(&allocator, 1000, nullptr);
    EXPECT(address != nullptr && ValueOf(allocator, "InUse") == "1024");
    allocator.Free(&allocator, address);

    // Memory that is short is an error of the run, and the next run finds memory again.
    void* const taken = allocator.Alloc(&allocator, (2 << 20) - (300 << 10));
    EXPECT(taken != nullptr);
    OrtStatus* const status = Run(session, allocator);
    EXPECT(status != nullptr);
    EXPECT(std::strstr(Api().GetErrorMessage(status), "raise option 'budget'") != nullptr);
    Api().ReleaseStatus(status);
    allocator.Free(&allocator, taken);
    Check(Run(session, allocator));
#if ORT_API_VERSION >= 25
    Check(allocator.Shrink(&allocator));
    EXPECT(StatisticsOf(allocator.pool()).reserved_bytes == 0);
#endif
    Api().ReleaseSession(session);
    Check(Api().UnregisterAllocator(environment, allocator.Info(&allocator)));
  }
  Api().ReleaseEnv(environment);
  std::printf("ONNX Runtime %s, API version %d: OK\n", OrtGetApiBase()->GetVersionString(),
              ORT_API_VERSION);
}
