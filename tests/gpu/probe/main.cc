// SPDX-License-Identifier: Apache-2.0
// usage: gpu_probe --list     the names of all questions
//        gpu_probe NAME       the members of the answer
// Exits with 77 without a GPU, and with 2 for an unknown name.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/gpu/probe/driver.h"
#include "tests/gpu/probe/probe.h"

namespace tidepool::probe {
namespace {

constexpr char kAtExit[] = "at_exit";

// Calls CUDA when the process ends, after functions that CUDA registered.
struct AtExit {
  ~AtExit() {
    if (!asked) return;
    int device = 0;
    const cudaError_t get_device = cudaGetDevice(&device);
    void* memory = nullptr;
    const cudaError_t malloc = cudaMalloc(&memory, 4096);
    dprintf(STDOUT_FILENO, "\"get_device\": %d, \"malloc\": %d", int{get_device}, int{malloc});
  }
  bool asked = false;
} at_exit;

void AddQuestions() {
  AskAboutTheDevice();
  AskAboutStreams();
  AskAboutCaptures();
  AskAboutWaits();
  AskAboutVirtualMemory();
  AskAboutMemory();
}

int List() {
  for (const Question& question : Questions()) std::printf("%s\n", question.name.c_str());
  std::printf("%s\n", kAtExit);
  return 0;
}

// Makes CUDA's context, and finds the granularity.
bool Prepare() {
  const cudaError_t error = cudaFree(nullptr);
  if (error != cudaSuccess) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    std::fprintf(stderr,
                 "no GPU: %s (%s); the driver has CUDA %d.%d (0.0: there is none), this program "
                 "needs %d.%d\n",
                 cudaGetErrorName(error), cudaGetErrorString(error), driver / 1000,
                 driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return false;
  }
  Granule();
  return true;
}

int AnswerTo(const std::string& name) {
  if (name == kAtExit) {
    if (!Prepare()) return 77;
    at_exit.asked = true;
    return 0;
  }
  for (const Question& question : Questions()) {
    if (question.name != name) continue;
    if (!Prepare()) return 77;
    question.ask();
    std::printf("%s", Answer().c_str());
    std::fflush(stdout);
    _exit(0);  // the end of a process is a question of its own
  }
  std::fprintf(stderr, "no question '%s': --list names all\n", name.c_str());
  return 2;
}

}  // namespace
}  // namespace tidepool::probe

int main(int argc, char** argv) {
  tidepool::probe::AddQuestions();
  const std::string name = argc > 1 ? argv[1] : "--list";
  return name == "--list" ? tidepool::probe::List() : tidepool::probe::AnswerTo(name);
}
