// SPDX-License-Identifier: Apache-2.0
// The bytes that kernels of PyTorch move, on the clock of events: their names are those of PyTorch
// 2.11, their arguments of the layouts that its headers declare.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/dryrun/runtime/fixture.h"

extern "C" void __cudaRegisterFunction(void** handle, const char* host, char* device,
                                       const char* name, int limit, uint3* thread, uint3* block,
                                       dim3* block_size, dim3* grid_size, int* warp_size);

namespace tidepool {
namespace {

constexpr char kAdd[] =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIP"
    "cLm3EEEEviT0_T1_";
// The name in PyTorch 2.6.
constexpr char kMultiply[] =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorIN3c108BFloa"
    "t16ES4_S4_NS0_15binary_internal10MulFunctorIfEEEENS_6detail5ArrayIPcLi2EEEEEviT0_T1_";
constexpr char kToBfloat16[] =
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_25bfloat16_copy_kernel_cudaERN"
    "S_18TensorIteratorBaseEEUlfE_St5arrayIPcLm2EEEEviT0_T1_";
constexpr char kEqual[] =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13BinaryFunctorIffbNS0_12_GLOBA"
    "L__N_116CompareEqFunctorIfEEEESt5arrayIPcLm3EEEEviT0_T1_";
constexpr char kAddWithCasts[] =
    "_ZN2at6native27unrolled_elementwise_kernelINS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EE"
    "Li4E23TrivialOffsetCalculatorILi2EjES7_ILi1EjENS0_6memory12LoadWithCastILi2EEENSA_13"
    "StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_";
constexpr char kAddByPlace[] =
    "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_15CUDA"
    "Functor_addIfEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_";
constexpr char kSum[] =
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfZNS0_11s"
    "um_functorIfffEclERNS_14TensorIteratorEEUlffE_EEjfLi4ELi4EEEEEvT1_";
constexpr char kLayerNorm[] =
    "_ZN2at6native12_GLOBAL__N_128vectorized_layer_norm_kernelIN3c108BFloat16EfLb1EEEviT0"
    "_PKT_S8_S8_PS5_S9_PS6_";
constexpr char kAdam[] =
    "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_32FusedOptimizerTensorLis"
    "tMetadataILi4EEENS1_20FusedAdamMathFunctorIfLi4ELNS0_9ADAM_MODEE0ELb0EEEJPKfdddddbS9"
    "_S9_EEEvT_T0_DpT1_";
constexpr char kAddLists[] =
    "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi2E"
    "EENS1_24BinaryOpListAlphaFunctorIfLi2ELi2ELi0EEEJSt4plusIfEfEEEvT_T0_DpT1_";
constexpr char kConcatenate[] =
    "_ZN2at6native12_GLOBAL__N_119CatArrayBatchedCopyINS1_10OpaqueTypeILj4EEEjLi2ELi64ELi"
    "64EEEvPT_NS1_25CatArrInputTensorMetadataIS5_T0_XT2_EXT3_EEENS1_16TensorSizeStrideIS8"
    "_Lj4EEEiS8_";
constexpr char kStatistics[] =
    "_ZN2at6native36batch_norm_collect_statistics_kernelINS0_3VarEfffiEEvN5torch10headero"
    "nly6detail27GenericPackedTensorAccessorINS5_14TensorAccessorIN3c108ArrayRefIlEEKT0_L"
    "m2ENS4_17RestrictPtrTraitsET3_EENS_6detail16IndexBoundsCheckILm3ESE_EESC_Lm3ESD_SE_E"
    "ET2_SK_NS6_INS7_ISA_SK_Lm0ESD_SE_EENSH_ILm1ESE_EESK_Lm1ESD_SE_EESN_";
constexpr char kDropout[] =
    "_ZN2at6native12_GLOBAL__N_124fused_dropout_kernel_vecIffjLi1ELi4EbEEvNS_4cuda6detail"
    "10TensorInfoIKT_T1_EENS5_IS6_S8_EENS5_IT4_S8_EES8_T0_NS_15PhiloxCudaStateE";
constexpr char kFlash[] =
    "_ZN13pytorch_flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi96ELi64ELi64ELi4ELb"
    "0ELb0EN7cutlass6half_tE19Flash_kernel_traitsILi96ELi64ELi64ELi4ES3_EELb0ELb1ELb0ELb0"
    "ELb0ELb0ELb0ELb0EEEvNS_16Flash_fwd_paramsE";
constexpr char kEfficientBackward[] =
    "_Z40fmha_cutlassB_f32_aligned_64x64_k64_sm80N22PyTorchMemEffAttention23AttentionBack"
    "wardKernelIN7cutlass4arch4Sm80EfLb1ELb0ELb0ELi64ELi64ELi64ELb0EE6ParamsE";

// A structure that is passed by value, with numbers at offsets.
class Structure {
 public:
  template <typename Number>
  Structure& Put(std::size_t offset, Number number) {
    std::memcpy(&bytes_.at(offset), &number, sizeof number);
    return *this;
  }
  void* get() { return bytes_.data(); }

 private:
  std::vector<char> bytes_ = std::vector<char>(40'000);
};

class KernelBytesTest : public CudartHost {
 protected:
  KernelBytesTest() {
    CudartHostConfig config = Config(1);
    config.has_kernels = 1;
    config.capability = 90;
    config.assumed_bytes_per_second = 1e9;  // a byte takes a nanosecond
    config.assumed_operations_per_second = 1e9 / 0.35;
    EXPECT_EQ(cudartHostConfigure(&config), 1);
  }

  // Returns the nanoseconds of a kernel beside its launch.
  static std::int64_t TimeOf(const char* name, std::vector<void*> arguments, dim3 grid = dim3(1),
                             dim3 block = dim3(1)) {
    constexpr std::int64_t kLaunch = 5000;
    __cudaRegisterFunction(nullptr, name, nullptr, name, 0, nullptr, nullptr, nullptr, nullptr,
                           nullptr);
    const std::int64_t begin = cudartHostAssumedTime(0);
    EXPECT_EQ(cudaLaunchKernel(name, grid, block, arguments.data(), 0, nullptr), cudaSuccess);
    return cudartHostAssumedTime(0) - begin - kLaunch;
  }

  int elements_ = 1000;
  std::array<void*, 3> unused_ = {};
};

TEST_F(KernelBytesTest, ElementsOfEachTensorCountOnce) {
  EXPECT_EQ(TimeOf(kAdd, {&elements_, &unused_, &unused_}), 1000 * (4 + 4 + 4));
  EXPECT_EQ(TimeOf(kToBfloat16, {&elements_, &unused_, &unused_}), 1000 * (4 + 2));
  EXPECT_EQ(TimeOf(kEqual, {&elements_, &unused_, &unused_}), 1000 * (4 + 4 + 1));
  EXPECT_EQ(TimeOf(kMultiply, {&elements_, &unused_, &unused_}), 1000 * (2 + 2)) << "a scalar";
}

TEST_F(KernelBytesTest, CastsTellTheSizesOfTheirTensors) {
  Structure load;
  load.Put(4, std::uint32_t{8}).Put(8, std::uint32_t{2});
  Structure store;
  store.Put(4, std::uint32_t{4});
  EXPECT_EQ(TimeOf(kAddWithCasts,
                   {&elements_, &unused_, &unused_, &unused_, &unused_, load.get(), store.get()}),
            1000 * (8 + 2 + 4));
}

// The sum of a matrix of 100 rows and a row of 10 numbers: sizes, then bytes between elements.
TEST_F(KernelBytesTest, RepeatedElementsCountOnce) {
  Structure places;
  places.Put(0, std::int32_t{2}).Put(4, std::uint32_t{10}).Put(16, std::uint32_t{100});
  const std::array<std::uint32_t, 6> strides = {4, 4, 4, 40, 40, 0};
  for (std::size_t i = 0; i < strides.size(); ++i) places.Put(304 + 4 * i, strides[i]);
  EXPECT_EQ(TimeOf(kAddByPlace, {&elements_, places.get()}), 4 * (1000 + 1000 + 10));
  places.Put(4, std::uint32_t{11});
  EXPECT_EQ(TimeOf(kAddByPlace, {&elements_, places.get()}), 1000 * 12)
      << "places of other elements are not believed";
}

TEST_F(KernelBytesTest, ReductionsReadTheirInputsOnce) {
  for (const std::size_t config : {8, 24}) {
    Structure reduction;
    const std::array<std::int32_t, 13> numbers = {4, 300, 7, 1, 1, 2, 0, 0, 0, 0, 0, 32, 16};
    for (std::size_t i = 0; i < numbers.size(); ++i) reduction.Put(config + 4 * i, numbers[i]);
    EXPECT_EQ(TimeOf(kSum, {reduction.get()}, dim3(7, 2), dim3(32, 16)), 4 * (300 * 7 + 7));
  }
}

TEST_F(KernelBytesTest, NormalizationsReadAndWriteTheirRows) {
  EXPECT_EQ(TimeOf(kLayerNorm, {&elements_}, dim3(50), dim3(32, 4)), 50 * 1000 * (2 + 2));
  Structure images;  // an accessor: an address and sizes
  images.Put(8, std::int32_t{2}).Put(12, std::int32_t{3}).Put(16, std::int32_t{1000});
  Structure weights;  // of no elements
  EXPECT_EQ(TimeOf(kStatistics, {images.get(), &unused_, &unused_, weights.get(), weights.get()}),
            2 * 3 * 1000 * 4);
}

TEST_F(KernelBytesTest, DropoutMovesTwoTensorsAndAMask) {
  Structure tensor;  // an address, 25 sizes, 25 strides, dimensions
  tensor.Put(8, std::uint32_t{1000}).Put(208, std::int32_t{1});
  EXPECT_EQ(TimeOf(kDropout, {tensor.get(), tensor.get(), tensor.get()}), 1000 * (4 + 4 + 1));
}

// Where the metadata of lists of tensors has its parts.
struct Layout {
  std::size_t tensors, blocks, size;
  std::size_t counts(std::size_t lists) const { return lists * tensors * 8; }
  std::size_t numbers(std::size_t lists, std::size_t others) const {
    return counts(lists) + tensors * (8 + others);
  }
};

// Two tensors: one of 65,636 elements with two blocks, and one of 10.
Structure TwoTensors(const Layout& layout, std::size_t lists, std::size_t others) {
  Structure metadata;
  metadata.Put(layout.counts(lists), std::int64_t{65'636});
  metadata.Put(layout.counts(lists) + 8, std::int64_t{10});
  const std::size_t numbers = layout.numbers(lists, others);
  metadata.Put(numbers + 2 * layout.size, std::uint8_t{1});
  metadata.Put(numbers + layout.blocks * layout.size + 4, std::int32_t{1});
  return metadata;
}

TEST_F(KernelBytesTest, ListsOfTensorsCountTheirElements) {
  const Layout small = {.tensors = 64, .blocks = 320, .size = 1};
  const Layout large = {.tensors = 448, .blocks = 2240, .size = 2};
  for (const Layout& layout : {small, large}) {
    EXPECT_EQ(TimeOf(kAddLists, {TwoTensors(layout, 2, 0).get()}, dim3(3), dim3(512)),
              (65'636 + 10) * 3 * 4)
        << layout.tensors;
  }
  const Layout four = {.tensors = 36, .blocks = 320, .size = 1};
  const Layout four_large = {.tensors = 252, .blocks = 2240, .size = 2};
  for (const Layout& layout : {four, four_large}) {
    EXPECT_EQ(TimeOf(kAdam, {TwoTensors(layout, 4, 8).get()}, dim3(3), dim3(512)),
              (65'636 + 10) * (4 + 3) * 4)
        << layout.tensors;
  }
}

TEST_F(KernelBytesTest, ConcatenationsCopyTheirInputs) {
  constexpr std::size_t kCounts = 64 * (8 + 4 + 4);
  Structure inputs;
  inputs.Put(kCounts, std::uint32_t{1000}).Put(kCounts + 4, std::uint32_t{500});
  EXPECT_EQ(TimeOf(kConcatenate, {&unused_, inputs.get()}, dim3(9, 2), dim3(512)), 2 * 1500 * 4);
}

TEST_F(KernelBytesTest, AttentionTakesTheTimeOfItsOperations) {
  Structure flash;
  flash.Put(96, std::int32_t{6}).Put(176, std::int32_t{2}).Put(180, std::int32_t{30});
  flash.Put(184, std::int32_t{50}).Put(192, std::int32_t{96});
  const auto products = [](double count) { return count * 2 * 6 * 2 * 30 * 50 * 96; };
  EXPECT_NEAR(static_cast<double>(TimeOf(kFlash, {flash.get()})), products(2) / 2, 2) << "causal";
  Structure efficient;
  efficient.Put(144, std::int32_t{96}).Put(148, std::int32_t{96}).Put(152, std::int32_t{30});
  efficient.Put(156, std::int32_t{50});
  const auto time = [&] {
    return static_cast<double>(TimeOf(kEfficientBackward, {efficient.get()}, dim3(1, 6, 2)));
  };
  EXPECT_NEAR(time(), 2 * products(5), 2) << "of floats, at half the rate";
  efficient.Put(164, std::uint8_t{1});
  EXPECT_NEAR(time(), products(5), 2) << "causal";
  efficient.Put(192, std::int64_t{96}).Put(164, std::int32_t{1}).Put(168, std::uint8_t{0});
  EXPECT_NEAR(time(), 2 * products(5), 2) << "the layout of newer versions";
}

// Kernels of others may have the names of PyTorch's, and some launches have no arguments.
TEST_F(KernelBytesTest, BytesOfOtherKernelsAreGuessed) {
  static constexpr char kMine[] = "_ZN4mine29vectorized_elementwise_kernelILi4ENS_1fIfEEEEviT0_";
  static constexpr char kPlain[] = "add";
  constexpr std::int64_t kGuess = 16 * 20;
  for (const char* const name : {kMine, kPlain}) {
    EXPECT_EQ(TimeOf(name, {&elements_, &unused_}, dim3(2), dim3(10)), kGuess) << name;
  }
  const std::int64_t begin = cudartHostAssumedTime(0);
  EXPECT_EQ(cudaLaunchKernel(kAdd, dim3(2), dim3(10), nullptr, 0, nullptr), cudaSuccess);
  EXPECT_EQ(cudartHostAssumedTime(0) - begin, 5000 + kGuess);
}

// A copy reads and writes, and a fill writes.
TEST_F(KernelBytesTest, CopiesInMemoryMoveTheirBytesTwice) {
  char* const memory = NewMemory(4000);
  const auto time = [](auto work) {
    const std::int64_t begin = cudartHostAssumedTime(0);
    EXPECT_EQ(work(), cudaSuccess);
    return cudartHostAssumedTime(0) - begin - 5000;
  };
  EXPECT_EQ(time([&] {
              return cudaMemcpyAsync(memory, memory + 2000, 1000, cudaMemcpyDeviceToDevice,
                                     nullptr);
            }),
            2000);
  EXPECT_EQ(time([&] { return cudaMemsetAsync(memory, 0, 1000, nullptr); }), 1000);
  cudaFree(memory);
}

}  // namespace
}  // namespace tidepool
