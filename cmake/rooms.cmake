# SPDX-License-Identifier: Apache-2.0
# Makes an object library of each room, as the table of rooms lists them. A room is linked only with
# the rooms that the table lets it use, so a forbidden arrow is an undefined symbol.
set(TIDEPOOL_ROOM_TABLE ${PROJECT_SOURCE_DIR}/docs/design/rooms.md)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${TIDEPOOL_ROOM_TABLE})

# Returns the target of a room: tidepool_room_csv for lib/trace/csv.
function(tidepool_room_target room result)
  string(REGEX REPLACE "^lib/[a-z]+/" "" name ${room})
  string(REPLACE "/" "_" name ${name})
  set(${result} tidepool_room_${name} PARENT_SCOPE)
endfunction()

# Most rooms include these headers, which take a third of the time for a room. A build of many files at once has them
# precompiled. A build of each file alone does without, as it shows which includes a file lacks. So does a build with ccache,
# which keeps no file that was compiled with them unless CCACHE_SLOPPINESS says so.
set(TIDEPOOL_PRECOMPILE ${CMAKE_UNITY_BUILD})
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache" AND NOT "$ENV{CCACHE_SLOPPINESS}" MATCHES "pch_defines")
  set(TIDEPOOL_PRECOMPILE OFF)
endif()

# Gives a room the precompiled headers. The first room compiles them.
function(tidepool_precompile target)
  if(NOT TIDEPOOL_PRECOMPILE)
    return()
  endif()
  if(target STREQUAL "tidepool_room_text")
    target_precompile_headers(${target} PRIVATE
      <algorithm> <array> <bit> <cmath> <cstddef> <cstdint> <functional> <limits> <map> <memory> <numeric> <optional> <string>
      <string_view> <tuple> <utility> <variant> <vector>
      <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h> <absl/container/inlined_vector.h> <absl/status/status.h>
      <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_join.h> <absl/time/time.h> <absl/types/span.h>)
  else()
    target_precompile_headers(${target} REUSE_FROM tidepool_room_text)
  endif()
endfunction()

# The sources of a room lie in its folder, and in folders of that which are no rooms themselves.
function(tidepool_add_room room)
  tidepool_room_target(${room} target)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${room}/*.cc ${PROJECT_SOURCE_DIR}/${room}/*/*.cc)
  foreach(inner ${rows})
    string(REGEX REPLACE "^\\| `([a-z_/]+)`.*" "\\1" inner "${inner}")
    if(inner MATCHES "^${room}/")
      list(FILTER sources EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/${inner}/")
    endif()
  endforeach()
  add_library(${target} OBJECT ${sources})
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})
  target_include_directories(${target} SYSTEM PRIVATE ${RapidJSON_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE
    ${TIDEPOOL_DEPENDENCIES} ZLIB::ZLIB Threads::Threads $<BUILD_INTERFACE:tidepool_flags>)
  tidepool_precompile(${target})
  # These rooms make graphs, schedules of layers and texts, and spend no time in loops of their own. They compile in two thirds
  # of the time of -O3.
  if(room MATCHES "^(lib/training/(models|emit)|policies/training/(layerwise|registry|requests))$" AND NOT TIDEPOOL_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# Sets TIDEPOOL_ROOMS, and the closure of each room: itself and every room that it uses, directly or
# indirectly.
set(TIDEPOOL_ROOMS)
file(STRINGS ${TIDEPOOL_ROOM_TABLE} rows REGEX "^\\| `(lib|policies)/")
foreach(row ${rows})
  string(REGEX MATCHALL "`(lib|policies)/[a-z_/]+`" cells "${row}")
  string(REPLACE "`" "" cells "${cells}")
  list(POP_FRONT cells room)
  # The rooms of CUDA and NVTX need a toolkit (cmake/cuda.cmake), that of profiles SQLite
  # (cmake/profile.cmake).
  if(NOT room MATCHES "^lib/(memory/device/cuda|memory/nvtx|training/profile)$")
    list(APPEND TIDEPOOL_ROOMS ${room})
    set(TIDEPOOL_CLOSURE_${room} ${room})
    foreach(used ${cells})
      list(APPEND TIDEPOOL_CLOSURE_${room} ${TIDEPOOL_CLOSURE_${used}})
    endforeach()
    list(REMOVE_DUPLICATES TIDEPOOL_CLOSURE_${room})
    tidepool_add_room(${room})
  endif()
endforeach()

# Returns the objects of rooms, for targets made of them.
function(tidepool_objects_of result)
  set(objects)
  foreach(room ${ARGN})
    tidepool_room_target(${room} target)
    list(APPEND objects $<TARGET_OBJECTS:${target}>)
  endforeach()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()

# These files share internal names with other files, so a unity build (CMAKE_UNITY_BUILD) compiles
# them alone.
set(alone lib/training/graph/task_order.cc lib/trace/native/native_writer.cc lib/trace/pytorch/pickle_writer.cc
  lib/trace/pytorch/pytorch_snapshot_writer.cc lib/trace/recorder/record_encoder.cc lib/copies/zvc/avx512.cc lib/copies/zvc/codec.cc
  lib/copies/zvc/stream.cc)
list(TRANSFORM alone PREPEND ${PROJECT_SOURCE_DIR}/)
set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
