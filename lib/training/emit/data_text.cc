// SPDX-License-Identifier: Apache-2.0
// The text of emitted programs with kernels: their data and their loss.
#include "lib/training/emit/program_parts.h"

namespace tidepool::emit {

std::string_view DataText() {
  return R"cpp(
    // The loss is the mean of -log(p) of the labels, and y is log(p). So its gradient by y is a
    // constant of the labels, which the host knows, and it reads y to tell the loss.
    [[maybe_unused]] void Lose(int stream, const Pass& pass, std::int64_t samples, const void* y,
                               void* dy) {
      const std::int64_t sample_bytes =
          kClasses * kPositions * static_cast<std::int64_t>(sizeof(float));
      const std::int64_t first = pass.first * sample_bytes;
      CopyIn(stream, dy, Host(kTargetsAt + first), samples * sample_bytes);
      CopyOut(stream, Host(kResultsAt + first), y, samples * sample_bytes);
    }

    // Data
    // ----------------------------------------------------------------------------------------------

    // Returns a number of -1 to 1 that is the same for the same arguments (splitmix64, Steele et
    // al., OOPSLA 2014).
    double Noise(std::uint64_t a, std::uint64_t b) {
      std::uint64_t z = a * 0x9e3779b97f4a7c15U + b * 0xbf58476d1ce4e5b9U + 0x94d049bb133111ebU;
      z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
      z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
      z ^= z >> 31U;
      return static_cast<double>(z >> 11U) / static_cast<double>(1ULL << 52U) - 1;
    }

    // Fills memory with numbers of a mean of 0 and this deviation, or with one value.
    [[maybe_unused]] void FillNoise(void* memory, std::int64_t count, double deviation, unsigned seed) {
      for (std::int64_t i = 0; i < count; ++i) {
        const double number = deviation * std::sqrt(3.0) * Noise(seed, static_cast<std::uint64_t>(i));
        static_cast<float*>(memory)[i] = static_cast<float>(number);
      }
    }
    [[maybe_unused]] void Fill(void* memory, std::int64_t count, float value) {
      for (std::int64_t i = 0; i < count; ++i) static_cast<float*>(memory)[i] = value;
    }

    // Writes the samples of a batch, and the label of each position. REPLACE THIS BY YOUR DATA.
    // Here a sample is the pattern of its label and noise, and all of its positions have the label.
    void LoadBatch(int iteration, float* inputs, std::int32_t* labels) {
      for (std::int64_t sample = 0; sample < kBatch; ++sample) {
        const std::uint64_t number = static_cast<std::uint64_t>(iteration * kBatch + sample);
        const double place = (Noise(number, ~std::uint64_t{0}) + 1) / 2;
        const std::uint64_t label = static_cast<std::uint64_t>(place * kClasses);
        for (std::int64_t position = 0; position < kPositions; ++position) {
          labels[sample * kPositions + position] = static_cast<std::int32_t>(label);
        }
        for (std::int64_t i = 0; i < kInputs; ++i) {
          const std::uint64_t element = static_cast<std::uint64_t>(i);
          inputs[sample * kInputs + i] =
              static_cast<float>(Noise(label + 1000003, element) + 0.5 * Noise(number, element));
        }
      }
    }

    void StartBatch(int iteration) {
      const std::int32_t* labels = static_cast<std::int32_t*>(Host(kLabelsAt));
      LoadBatch(iteration, static_cast<float*>(Host(kInputAt)),
                static_cast<std::int32_t*>(Host(kLabelsAt)));
      float* targets = static_cast<float*>(Host(kTargetsAt));
      Fill(targets, kBatch * kClasses * kPositions, 0);
      for (std::int64_t i = 0; i < kBatch * kPositions; ++i) {
        const std::int64_t sample = i / kPositions;
        const std::int64_t at = (sample * kClasses + labels[i]) * kPositions + i % kPositions;
        targets[at] = -1 / static_cast<float>(kBatch * kPositions);
      }
    }

    double Loss() {
      const std::int32_t* labels = static_cast<std::int32_t*>(Host(kLabelsAt));
      const float* results = static_cast<float*>(Host(kResultsAt));
      double sum = 0;
      for (std::int64_t i = 0; i < kBatch * kPositions; ++i) {
        const std::int64_t sample = i / kPositions;
        sum -= static_cast<double>(
            results[(sample * kClasses + labels[i]) * kPositions + i % kPositions]);
      }
      return sum / static_cast<double>(kBatch * kPositions);
    }
  )cpp";
}

std::string_view KernelMainText() {
  return R"cpp(
    int main(int argc, char** argv) {
      const int iterations = argc > 1 ? std::atoi(argv[1]) : 20;
      if (argc > 2) rate = static_cast<float>(std::atof(argv[2]));
      if (!Start()) return 2;
      StartKernels();
      StartLayers();
      StartUpdates();
      FillHomes();
      for (int iteration = 1; iteration <= iterations; ++iteration) {
        StartBatch(iteration);
        StartIteration(iteration);
        Iterate();
        CHECK(cudaDeviceSynchronize());
        std::printf("iteration %d loss %.9g\n", iteration, Loss());
      }
      EndUpdates();
      EndLayers();
      EndKernels();
      End();
      return 0;
    }
  )cpp";
}

}  // namespace tidepool::emit
