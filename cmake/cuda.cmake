# SPDX-License-Identifier: Apache-2.0
# tidepool::cuda, built if the CUDA Toolkit was found. It is a library of its own, so that programs
# without a GPU need no CUDA.
if(NOT CUDAToolkit_FOUND)
  return()
endif()

# Tests link the objects to see hidden symbols. The objects hold only the code for CUDA.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/lib/memory/device/cuda/*.cc ${PROJECT_SOURCE_DIR}/lib/memory/nvtx/*.cc)
add_library(tidepool_cuda_objects OBJECT ${sources})
target_compile_features(tidepool_cuda_objects PUBLIC cxx_std_20)
set_target_properties(tidepool_cuda_objects PROPERTIES
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
target_include_directories(tidepool_cuda_objects
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> PRIVATE ${PROJECT_SOURCE_DIR})
target_include_directories(tidepool_cuda_objects SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(tidepool_cuda_objects
  PUBLIC ${TIDEPOOL_DEPENDENCIES} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} $<BUILD_INTERFACE:tidepool_flags>)
tidepool_precompile(tidepool_cuda_objects)

add_library(tidepool_cuda $<TARGET_OBJECTS:tidepool_cuda_objects>)
add_library(tidepool::cuda ALIAS tidepool_cuda)
if(BUILD_SHARED_LIBS)
  # The files that all devices share are compiled again, since the other library hides their
  # symbols.
  target_sources(tidepool_cuda PRIVATE lib/memory/device/address_ranges.cc lib/memory/device/name_source.cc lib/memory/device/virtual_memory.cc)
  set_target_properties(tidepool_cuda PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(tidepool_cuda PRIVATE ${PROJECT_SOURCE_DIR})
endif()
target_link_libraries(tidepool_cuda
  PUBLIC tidepool $<BUILD_INTERFACE:${TIDEPOOL_CUDART}> $<INSTALL_INTERFACE:CUDA::cudart>
  PRIVATE Threads::Threads ${CMAKE_DL_LIBS} $<BUILD_INTERFACE:tidepool_flags>)
set_target_properties(tidepool_cuda PROPERTIES EXPORT_NAME cuda INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
tidepool_number(tidepool_cuda ${PROJECT_VERSION} ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
