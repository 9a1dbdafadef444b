# SPDX-License-Identifier: Apache-2.0
# The programs that scripts/gpu_suite.sh runs on a machine with a GPU: tests with kernels, a
# benchmark, and questions about CUDA's behaviour. Built if nvcc was found.
set(default OFF)
if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND TIDEPOOL_TESTS AND TIDEPOOL_BENCHMARKS)
  set(default ON)
endif()
option(TIDEPOOL_GPU_SUITE "Build what needs a GPU to run" ${default})
if(NOT TIDEPOOL_GPU_SUITE)
  return()
endif()
find_package(GTest REQUIRED)
find_package(nlohmann_json REQUIRED)
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90)  # their PTX serves newer GPUs
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
enable_language(CUDA)

# The warnings are meant for the C++ compiler, so nvcc gets none of them.
add_library(tidepool_gpu_kernels OBJECT ${PROJECT_SOURCE_DIR}/tests/gpu/patterns.cu)
set_target_properties(tidepool_gpu_kernels PROPERTIES CUDA_STANDARD 17 CUDA_RUNTIME_LIBRARY None)
target_include_directories(tidepool_gpu_kernels PRIVATE ${PROJECT_SOURCE_DIR})

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/gpu/*.cc)
add_executable(gpu_test ${sources} $<TARGET_OBJECTS:tidepool_gpu_kernels>)
target_link_libraries(gpu_test PRIVATE GTest::gmock GTest::gtest)
target_compile_options(gpu_test PRIVATE "$<$<CONFIG:Release>:-Og;-Wno-maybe-uninitialized>")  # as in tests/CMakeLists.txt
add_executable(gpu_bench ${PROJECT_SOURCE_DIR}/bench/gpu/gpu_bench.cc)
target_link_libraries(gpu_bench PRIVATE nlohmann_json::nlohmann_json)
if(TARGET cudart_host_probe)
  set(sources $<TARGET_OBJECTS:cudart_host_probe>)
else()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/gpu/probe/*.cc)
endif()
add_executable(gpu_probe ${sources})
target_compile_features(gpu_probe PRIVATE cxx_std_20)
target_link_libraries(gpu_probe PRIVATE ${TIDEPOOL_CUDART} tidepool_flags Threads::Threads)
set_target_properties(gpu_probe PROPERTIES UNITY_BUILD OFF)
target_include_directories(gpu_probe PRIVATE ${PROJECT_SOURCE_DIR})
set_target_properties(gpu_probe PROPERTIES
  CUDA_RUNTIME_LIBRARY None LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/gpu)
foreach(program gpu_test gpu_bench)
  set_target_properties(${program} PROPERTIES
    CUDA_RUNTIME_LIBRARY None LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/gpu)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${program} PRIVATE tidepool::tidepool tidepool::cuda tidepool_flags Threads::Threads)
endforeach()

if(TIDEPOOL_TESTS)
  add_test(NAME gpu.tests COMMAND gpu_test)
  set_tests_properties(gpu.tests PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
  # The suite with these programs. They load the stand-in if the runtime is a library.
  if(TARGET cudart_host AND TARGET tidepool_tool AND TARGET cnmem_bench AND NOT TIDEPOOL_SANITIZE AND NOT TIDEPOOL_STATIC_DEPENDENCIES)
    add_test(NAME gpu.suite_on_the_stand_in
             COMMAND python3 ${PROJECT_SOURCE_DIR}/tests/house/gpu_suite_test.py ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    set_tests_properties(gpu.suite_on_the_stand_in PROPERTIES TIMEOUT 600)
    add_test(NAME gpu.pack COMMAND ${PROJECT_SOURCE_DIR}/tests/house/gpu_pack_test.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    set_tests_properties(gpu.pack PROPERTIES TIMEOUT 600)
  endif()
endif()
