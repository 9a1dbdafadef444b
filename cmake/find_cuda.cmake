# SPDX-License-Identifier: Apache-2.0
# Looks for the CUDA Toolkit as TIDEPOOL_CUDA says. Without it, only the CUDA device and CNMeM's replacement are missing.
set(TIDEPOOL_CUDA AUTO CACHE STRING "Build the CUDA device: ON, OFF, or AUTO, if the CUDA Toolkit is found")
set_property(CACHE TIDEPOOL_CUDA PROPERTY STRINGS AUTO ON OFF)
set(CUDAToolkit_FOUND OFF)
if(TIDEPOOL_CUDA)
  find_package(CUDAToolkit 12 QUIET)
endif()
string(TOUPPER "${TIDEPOOL_CUDA}" wanted)
if(wanted AND NOT wanted STREQUAL "AUTO" AND NOT CUDAToolkit_FOUND)
  message(FATAL_ERROR "TIDEPOOL_CUDA is ${TIDEPOOL_CUDA}, and no CUDA Toolkit 12 or newer was found. Install it, name its "
                      "folder with -DCUDAToolkit_ROOT=FOLDER, or set TIDEPOOL_CUDA to AUTO or OFF.")
endif()
