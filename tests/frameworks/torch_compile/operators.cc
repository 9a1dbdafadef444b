// SPDX-License-Identifier: Apache-2.0
// Operators of a program in C++: one of one result, one of two, and one that changes a tensor.
#include <ATen/ops/mul.h>
#include <torch/library.h>

#include <tuple>

namespace {

at::Tensor Scale(const at::Tensor& x, double by) { return at::mul(x, by); }

std::tuple<at::Tensor, at::Tensor> Halves(const at::Tensor& x) {
  const int64_t width = x.size(-1) / 2;
  return {x.narrow(-1, 0, width).clone(), x.narrow(-1, width, width).clone()};
}

void AddTo(const at::Tensor& total, const at::Tensor& x) { total.add_(x); }

}  // namespace

TORCH_LIBRARY(tidepool_cpp, library) {
  library.def("scale(Tensor x, float by) -> Tensor");
  library.def("halves(Tensor x) -> (Tensor, Tensor)");
  library.def("add_to(Tensor(a!) total, Tensor x) -> ()");
}

TORCH_LIBRARY_IMPL(tidepool_cpp, CPU, library) {
  library.impl("scale", Scale);
  library.impl("halves", Halves);
  library.impl("add_to", AddTo);
}
