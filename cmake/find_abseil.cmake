# SPDX-License-Identifier: Apache-2.0
# Finds Abseil as it is installed, or builds its sources as a part, and installs it beside tidepool. A part is
# position-independent, so that shared libraries can hold it: distributions have archives for programs alone.
set(TIDEPOOL_ABSEIL "" CACHE PATH "Folder with the sources of Abseil, to build it as a part; empty: Abseil as it is installed")
if(NOT TIDEPOOL_ABSEIL)
  find_package(absl REQUIRED)
  return()
endif()
if(NOT EXISTS "${TIDEPOOL_ABSEIL}/absl/base/config.h")
  message(FATAL_ERROR "TIDEPOOL_ABSEIL is ${TIDEPOOL_ABSEIL}, which has no absl/base/config.h. Name a folder with the "
                      "sources of Abseil, or leave it out, and install Abseil.")
endif()
# Settings of Abseil alone, in a scope of their own.
function(tidepool_add_abseil)
  set(ABSL_ENABLE_INSTALL ON)
  set(ABSL_PROPAGATE_CXX_STD ON)
  set(ABSL_BUILD_TESTING OFF)
  set(BUILD_TESTING OFF)
  set(BUILD_SHARED_LIBS OFF)
  set(CMAKE_CXX_STANDARD 20)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_UNITY_BUILD OFF)
  # Its headers are no part of the project's warnings.
  if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.25)
    set(system SYSTEM)
  endif()
  add_subdirectory(${TIDEPOOL_ABSEIL} ${PROJECT_BINARY_DIR}/abseil ${system})
endfunction()
tidepool_add_abseil()
