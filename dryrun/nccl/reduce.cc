// SPDX-License-Identifier: Apache-2.0
#include "dryrun/nccl/reduce.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tidepool::cudart_host {
namespace {

// The element of each type in memory, and the type that computes with it.
template <typename Stored>
struct Computed {
  using Type = Stored;
};
template <>
struct Computed<__half> {
  using Type = float;
};
template <>
struct Computed<__nv_bfloat16> {
  using Type = float;
};

float Load(__half value) { return __half2float(value); }
float Load(__nv_bfloat16 value) { return __bfloat162float(value); }
template <typename Number>
Number Load(Number value) {
  return value;
}

void Store(float value, __half& to) { to = __float2half(value); }
void Store(float value, __nv_bfloat16& to) { to = __float2bfloat16(value); }
template <typename Number>
void Store(Number value, Number& to) {
  to = value;
}

// Calls `body` with a value of the type in memory. Returns an empty string for other types.
template <typename Body>
std::string WithType(ncclDataType_t type, Body body) {
  switch (type) {
    case ncclInt8:
      return body(std::int8_t{});
    case ncclUint8:
      return body(std::uint8_t{});
    case ncclInt32:
      return body(std::int32_t{});
    case ncclUint32:
      return body(std::uint32_t{});
    case ncclInt64:
      return body(std::int64_t{});
    case ncclUint64:
      return body(std::uint64_t{});
    case ncclFloat16:
      return body(__half{});
    case ncclFloat32:
      return body(float{});
    case ncclFloat64:
      return body(double{});
    case ncclBfloat16:
      return body(__nv_bfloat16{});
    default:
      return {};
  }
}

template <typename Stored>
Stored ElementOf(std::string_view array, std::size_t index) {
  Stored element{};
  if (!array.empty()) std::memcpy(&element, array.data() + index * sizeof(Stored), sizeof(Stored));
  return element;
}

template <typename Number>
Number Combine(Number one, Number other, ncclRedOp_t op) {
  if (op == ncclMax) return std::max(one, other);
  if (op == ncclMin) return std::min(one, other);
  return static_cast<Number>(op == ncclProd ? one * other : one + other);
}

template <typename Stored>
std::string ReduceOf(const std::vector<std::string_view>& arrays, ncclRedOp_t op) {
  using Number = typename Computed<Stored>::Type;
  std::size_t bytes = 0;
  for (const std::string_view array : arrays) bytes = std::max(bytes, array.size());
  std::string result(bytes, 0);
  for (std::size_t i = 0; i < bytes / sizeof(Stored); ++i) {
    Number number = Load(ElementOf<Stored>(arrays[0], i));
    for (std::size_t k = 1; k < arrays.size(); ++k) {
      number = Combine<Number>(number, Load(ElementOf<Stored>(arrays[k], i)), op);
    }
    if (op == ncclAvg) number = static_cast<Number>(number / static_cast<Number>(arrays.size()));
    Stored stored{};
    Store(number, stored);
    std::memcpy(result.data() + i * sizeof(Stored), &stored, sizeof(Stored));
  }
  return result;
}

template <typename Stored>
std::string TimesOf(std::string_view array, double factor) {
  using Number = typename Computed<Stored>::Type;
  std::string result(array);
  for (std::size_t i = 0; i < array.size() / sizeof(Stored); ++i) {
    const auto number = static_cast<double>(Load(ElementOf<Stored>(array, i)));
    Stored stored{};
    Store(static_cast<Number>(number * factor), stored);
    std::memcpy(result.data() + i * sizeof(Stored), &stored, sizeof(Stored));
  }
  return result;
}

}  // namespace

std::size_t BytesOf(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

std::string Reduce(const std::vector<std::string_view>& arrays, ncclDataType_t type,
                   ncclRedOp_t op) {
  return WithType(type, [&](auto stored) { return ReduceOf<decltype(stored)>(arrays, op); });
}

double NumberOf(std::string_view bytes, ncclDataType_t type) {
  double number = 1;
  WithType(type, [&](auto stored) {
    number = static_cast<double>(Load(ElementOf<decltype(stored)>(bytes, 0)));
    return std::string();
  });
  return number;
}

std::string Times(std::string_view array, ncclDataType_t type, double factor) {
  return WithType(type, [&](auto stored) { return TimesOf<decltype(stored)>(array, factor); });
}

}  // namespace tidepool::cudart_host
