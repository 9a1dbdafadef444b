# SPDX-License-Identifier: Apache-2.0
# `find_package(tidepool)` for an installed prefix.
include(CMakePackageConfigHelpers)

install(TARGETS tidepool tidepool_pool EXPORT tidepoolTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/tidepool DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} 
  PATTERN cuda_device.h EXCLUDE PATTERN nvtx_observer.h EXCLUDE)
# `find_package(tidepool COMPONENTS cuda)` provides tidepool::cuda. Its targets lie in a file of
# their own, so that projects without this component need no CUDA. `COMPONENTS cnmem` provides
# tidepool::cnmem, which needs no other part.
set(TIDEPOOL_COMPONENTS)
set(TIDEPOOL_HAS_CUDA OFF)
if(TARGET tidepool_cuda)
  set(TIDEPOOL_HAS_CUDA ON)
  list(APPEND TIDEPOOL_COMPONENTS cuda)
  install(FILES include/tidepool/cuda_device.h include/tidepool/nvtx_observer.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tidepool)
  install(TARGETS tidepool_cuda EXPORT tidepoolCudaTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(EXPORT tidepoolCudaTargets NAMESPACE tidepool::
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tidepool)
endif()
# `COMPONENTS profile` provides tidepool::profile, which needs SQLite.
set(TIDEPOOL_HAS_PROFILE OFF)
if(TARGET tidepool_profile)
  set(TIDEPOOL_HAS_PROFILE ON)
  list(APPEND TIDEPOOL_COMPONENTS profile)
  install(TARGETS tidepool_profile EXPORT tidepoolProfileTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(EXPORT tidepoolProfileTargets NAMESPACE tidepool::
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tidepool)
endif()
set(TIDEPOOL_HAS_CNMEM OFF)
if(TARGET cnmem)
  set(TIDEPOOL_HAS_CNMEM ON)
  list(APPEND TIDEPOOL_COMPONENTS cnmem)
  install(FILES bindings/cnmem/include/cnmem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  tidepool_install_library(cnmem tidepoolCnmemTargets)
  install(EXPORT tidepoolCnmemTargets NAMESPACE tidepool::
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tidepool)
endif()
# `COMPONENTS cudnn` provides tidepool::cudnn, which needs no other part. The library for LD_PRELOAD lies beside it.
set(TIDEPOOL_HAS_CUDNN OFF)
if(TARGET tidepool_cudnn)
  set(TIDEPOOL_HAS_CUDNN ON)
  list(APPEND TIDEPOOL_COMPONENTS cudnn)
  install(FILES bindings/cudnn/include/tidepool/cudnn.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tidepool)
  install(TARGETS tidepool_cudnn tidepool_cudnn_preload EXPORT tidepoolCudnnTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT tidepoolCudnnTargets NAMESPACE tidepool::
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tidepool)
endif()
# `COMPONENTS c` provides tidepool::c, the C interface, which needs no other part.
set(TIDEPOOL_HAS_C OFF)
if(TARGET tidepool_c)
  set(TIDEPOOL_HAS_C ON)
  list(APPEND TIDEPOOL_COMPONENTS c)
  install(DIRECTORY bindings/cuda_mr/include/tidepool bindings/ort/include/tidepool
    bindings/tensorrt/include/tidepool DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  tidepool_install_library(tidepool_c tidepoolCTargets)
  install(EXPORT tidepoolCTargets NAMESPACE tidepool::
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tidepool)
endif()
install(EXPORT tidepoolTargets NAMESPACE tidepool::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tidepool)
configure_package_config_file(cmake/tidepoolConfig.cmake.in tidepoolConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tidepool)
write_basic_package_version_file(tidepoolConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tidepoolConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/tidepoolConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tidepool)
include(cmake/pkg_config.cmake)
install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
