// SPDX-License-Identifier: Apache-2.0
#include "bindings/cudnn/functions.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "bindings/support/variables.h"

namespace tidepool::cudnn {
namespace {

constexpr char kLibrary[] = "libcudnn.so.9";

// Finds functions that come after this library in the order of the linker, and otherwise in the
// library by its name: a framework in Python loads cuDNN where only its own libraries see it.
class Finder {
 public:
  template <typename Function>
  void operator()(const std::string& name, Function& function) {
    Optional(name, function);
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  // Leaves null where cuDNN lacks the function.
  template <typename Function>
  void Optional(const std::string& name, Function& function) {
    void* found = dlsym(RTLD_NEXT, name.c_str());
    if (found == nullptr) found = InLibrary(name);
    function = reinterpret_cast<Function>(found);
  }

  const std::string& missing() const { return missing_; }

 private:
  void* InLibrary(const std::string& name) {
    if (library_ == nullptr) library_ = dlopen(kLibrary, RTLD_LAZY);
    return library_ == nullptr ? nullptr : dlsym(library_, name.c_str());
  }

  void* library_ = nullptr;
  std::string missing_;
};

void FindPass(Finder& find, const char* pass, PassFunctions& functions) {
  const std::string name = pass;
  find(absl::StrCat("cudnnGetConvolution", name, "Algorithm_v7"), functions.look);
  find(absl::StrCat("cudnnFindConvolution", name, "Algorithm"), functions.find);
  find(absl::StrCat("cudnnFindConvolution", name, "AlgorithmEx"), functions.find_ex);
  find(absl::StrCat("cudnnGetConvolution", name, "WorkspaceSize"), functions.size);
  find(absl::StrCat("cudnnConvolution", name), functions.run);
}

const Functions* FindAll() {
  auto* const functions = new Functions();
  Finder find;
  FindPass(find, "Forward", functions->passes[0]);
  FindPass(find, "BackwardData", functions->passes[1]);
  FindPass(find, "BackwardFilter", functions->passes[2]);
  find("cudnnConvolutionBiasActivationForward", functions->run_fused);
  find("cudnnGetVersion", functions->get_version);
  find("cudnnCreate", functions->create);
  find("cudnnDestroy", functions->destroy);
  find("cudnnSetStream", functions->set_stream);
  find("cudnnGetStream", functions->get_stream);
  find("cudnnCreateTensorDescriptor", functions->create_tensor);
  find("cudnnDestroyTensorDescriptor", functions->destroy_tensor);
  find("cudnnSetTensorNdDescriptor", functions->set_tensor);
  find("cudnnGetTensorNdDescriptor", functions->get_tensor);
  find("cudnnCreateFilterDescriptor", functions->create_filter);
  find("cudnnDestroyFilterDescriptor", functions->destroy_filter);
  find("cudnnSetFilterNdDescriptor", functions->set_filter);
  find("cudnnGetFilterNdDescriptor", functions->get_filter);
  find("cudnnCreateConvolutionDescriptor", functions->create_convolution);
  find("cudnnDestroyConvolutionDescriptor", functions->destroy_convolution);
  find("cudnnSetConvolutionNdDescriptor", functions->set_convolution);
  find("cudnnGetConvolutionNdDescriptor", functions->get_convolution);
  find("cudnnSetConvolutionMathType", functions->set_math);
  find("cudnnGetConvolutionMathType", functions->get_math);
  find("cudnnSetConvolutionGroupCount", functions->set_groups);
  find("cudnnGetConvolutionGroupCount", functions->get_groups);
  find("cudnnBackendCreateDescriptor", functions->create_backend);
  find("cudnnBackendDestroyDescriptor", functions->destroy_backend);
  find("cudnnBackendFinalize", functions->finalize_backend);
  find("cudnnBackendSetAttribute", functions->set_attribute);
  find("cudnnBackendGetAttribute", functions->get_attribute);
  find("cudnnBackendExecute", functions->execute);
  find.Optional("cudnnBackendPopulateCudaGraph", functions->populate_graph);
  find.Optional("cudnnBackendUpdateCudaGraph", functions->update_graph);
  if (find.missing().empty()) return functions;
  bindings::WarnOnce({absl::StrCat("cuDNN has no function ", find.missing(),
                                   ", expected cuDNN 9 in the library path")});
  delete functions;
  return nullptr;
}

}  // namespace

// Is never freed: programs call cuDNN until their very end.
const Functions* Functions::Get() {
  static const Functions* const functions = FindAll();
  return functions;
}

}  // namespace tidepool::cudnn
