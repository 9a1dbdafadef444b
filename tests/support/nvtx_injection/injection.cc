// SPDX-License-Identifier: Apache-2.0
// The entry point of every NVTX tool. This tool takes the creation of domains alone.
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

namespace {

int domains = 0;

nvtxDomainHandle_t CreateDomain(const char* /*name*/) {
  ++domains;
  return reinterpret_cast<nvtxDomainHandle_t>(&domains);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned count = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &count) == 0) {
    return 0;
  }
  *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&CreateDomain);
  return 1;
}
