# SPDX-License-Identifier: Apache-2.0
# TIDEPOOL_OPEN_CUDA: libraries and programs open CUDA's runtime, of any version since 12, when it is first called.
# TIDEPOOL_PORTABLE: they do that too, and need libc and libstdc++ alone. Abseil is a part, other libraries are archives.
set(TIDEPOOL_LINK_PATHS ON)
if(TIDEPOOL_OPEN_CUDA OR TIDEPOOL_PORTABLE)
  set(TIDEPOOL_LINK_PATHS OFF)
  set(TIDEPOOL_CUDART tidepool_cudart)
endif()
set(TIDEPOOL_JEMALLOC_LIBRARY PkgConfig::jemalloc)

# Sets the version of a shared library, and that of its interface, which programs ask for. A wheel holds no links, so there a
# library has one name: that for programs, of an interface that stays, or else that for the linker.
function(tidepool_number target version interface)
  if(SKBUILD AND interface MATCHES "[.]")
    return()
  elseif(SKBUILD)
    set(version ${interface})
  endif()
  set_target_properties(${target} PROPERTIES VERSION ${version} SOVERSION ${interface})
endfunction()

# Installs a shared library with an interface that stays. In a wheel, the name for the linker is a script that leads to it.
function(tidepool_install_library target export)
  if(NOT SKBUILD)
    install(TARGETS ${target} EXPORT ${export} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    return()
  endif()
  install(TARGETS ${target} EXPORT ${export} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
  set(script ${PROJECT_BINARY_DIR}/names/$<TARGET_LINKER_FILE_NAME:${target}>)
  file(GENERATE OUTPUT ${script} CONTENT "INPUT($<TARGET_SONAME_FILE_NAME:${target}>)\n")
  install(FILES ${script} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

if(NOT TIDEPOOL_PORTABLE)
  return()
endif()
if(NOT TIDEPOOL_ABSEIL)
  message(FATAL_ERROR "TIDEPOOL_PORTABLE is ON and TIDEPOOL_ABSEIL is empty. Name the folder of Abseil's sources with "
                      "-DTIDEPOOL_ABSEIL=FOLDER: installed archives are for programs alone.")
endif()
# Where pip installs CUDA's runtime, seen from the folder of a library in a wheel.
set(CMAKE_INSTALL_RPATH
  "$ORIGIN/../../nvidia/cu13/lib" "$ORIGIN/../../nvidia/cuda_runtime/lib" "$ORIGIN/../nvidia/cu13/lib" "$ORIGIN/../nvidia/cuda_runtime/lib")
# Symbols of archives are hidden in shared libraries, so those of distributions can be linked, which are for programs.
foreach(pair ZLIB::ZLIB,z SQLite::SQLite3,sqlite3)
  string(REPLACE "," ";" pair ${pair})
  list(GET pair 0 target)
  list(GET pair 1 name)
  find_library(TIDEPOOL_ARCHIVE_${name} lib${name}.a REQUIRED)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${TIDEPOOL_ARCHIVE_${name}} IMPORTED_LOCATION_RELEASE ${TIDEPOOL_ARCHIVE_${name}})
endforeach()
find_library(TIDEPOOL_ARCHIVE_jemalloc libjemalloc_pic.a REQUIRED)
set(TIDEPOOL_JEMALLOC_LIBRARY ${TIDEPOOL_ARCHIVE_jemalloc})
