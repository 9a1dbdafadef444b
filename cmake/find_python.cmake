# SPDX-License-Identifier: Apache-2.0
# Looks for Python with nanobind as TIDEPOOL_PYTHON says. Without them, only the Python package is missing.
set(TIDEPOOL_PYTHON AUTO CACHE STRING "Build the Python package: ON, OFF, or AUTO, if Python and nanobind are found")
set_property(CACHE TIDEPOOL_PYTHON PROPERTY STRINGS AUTO ON OFF)
set(TIDEPOOL_PYTHON_FOUND OFF)
string(TOUPPER "${TIDEPOOL_PYTHON}" wanted)
# An interpreter can load the runtime of AddressSanitizer first, not that of every sanitizer.
if(wanted STREQUAL "AUTO" AND
   (NOT PROJECT_IS_TOP_LEVEL OR (TIDEPOOL_SANITIZE AND NOT TIDEPOOL_SANITIZE MATCHES "^address")))
  set(wanted OFF)
endif()
if(NOT wanted OR NOT TIDEPOOL_TOOLS)
  return()
endif()

# scripts/setup.sh installs the packages of Python that the build needs there.
set(environment ${PROJECT_SOURCE_DIR}/build/python/bin/python)
if(NOT SKBUILD AND NOT Python_EXECUTABLE AND EXISTS ${environment})
  set(Python_EXECUTABLE ${environment})
endif()
set(TIDEPOOL_PYTHON_MISSING "a Python with its headers")
find_package(Python 3.9 QUIET COMPONENTS Interpreter Development.Module)
if(Python_FOUND)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
                  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(TIDEPOOL_PYTHON_MISSING "nanobind of ${Python_EXECUTABLE}")
  find_package(nanobind CONFIG QUIET)
  set(TIDEPOOL_PYTHON_FOUND ${nanobind_FOUND})
endif()
if(NOT TIDEPOOL_PYTHON_FOUND AND NOT wanted STREQUAL "AUTO")
  message(FATAL_ERROR "TIDEPOOL_PYTHON is ${TIDEPOOL_PYTHON}, and ${TIDEPOOL_PYTHON_MISSING} was not found. Run "
                      "scripts/setup.sh, or set TIDEPOOL_PYTHON to AUTO or OFF.")
endif()
