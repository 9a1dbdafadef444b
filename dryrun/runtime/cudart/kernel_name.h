// SPDX-License-Identifier: Apache-2.0
// The parts of the names of compiled kernels, which C++ mangles.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_KERNEL_NAME_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_KERNEL_NAME_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tidepool::cudart_host {

// A name with arguments, such as that of a template.
struct NameParts {
  std::string path;  // with namespaces, but none without a name
  std::string name;
  std::vector<std::string> templates;
  std::vector<std::string> parameters;  // of a function
};

// Returns the parts of `void spaces::name<templates>(parameters)`, mangled. All are empty for a
// name that is not mangled.
NameParts PartsOfMangled(const char* mangled);
// Returns the parts of `spaces::name<templates>`.
NameParts PartsOfType(std::string_view type);
// Returns the parts of a list with commas up to the bracket that closes it.
std::vector<std::string> ListOf(std::string_view text);

// Returns the bytes of a type of numbers, of the target of a pointer, or of the elements of a
// tensor; 0 if the type is not known.
std::int64_t SizeOfType(std::string_view type);
bool Contains(std::string_view text, std::string_view part);
// Returns the first number in `text` after `before`, or 0.
std::int64_t NumberAfter(std::string_view text, std::string_view before);

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_KERNEL_NAME_H_
