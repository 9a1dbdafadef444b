# SPDX-License-Identifier: Apache-2.0
# Installs tidepool.pc, for builds without CMake: `pkg-config --cflags --libs tidepool`. Its paths are relative to the
# file, so a prefix can be moved.
list(TRANSFORM TIDEPOOL_DEPENDENCIES REPLACE "^absl::" "absl_" OUTPUT_VARIABLE modules)
list(JOIN modules " " TIDEPOOL_PC_REQUIRES)
if(BUILD_SHARED_LIBS)
  set(TIDEPOOL_PC_REQUIRES_PRIVATE zlib)
  set(TIDEPOOL_PC_LIBS)
else()
  # Programs link everything that a static library uses, and few of them ask for --static.
  string(APPEND TIDEPOOL_PC_REQUIRES " zlib")
  set(TIDEPOOL_PC_REQUIRES_PRIVATE)
  set(TIDEPOOL_PC_LIBS " -pthread")
endif()
set(folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH TIDEPOOL_PC_PREFIX /prefix/${folder} /prefix)
string(REGEX REPLACE "/$" "" TIDEPOOL_PC_PREFIX ${TIDEPOOL_PC_PREFIX})
configure_file(cmake/tidepool.pc.in tidepool.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tidepool.pc DESTINATION ${folder})
# tidepool_c.pc is for programs in C, and for bindings.
if(TARGET tidepool_c)
  configure_file(cmake/tidepool_c.pc.in tidepool_c.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tidepool_c.pc DESTINATION ${folder})
endif()
