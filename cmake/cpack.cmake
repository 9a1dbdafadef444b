# SPDX-License-Identifier: Apache-2.0
# A Debian package of an installation, as scripts/deb.sh makes it. No package of Debian has CUDA's runtime, so a build that links it
# makes none.
if(CUDAToolkit_FOUND AND TIDEPOOL_LINK_PATHS)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The tidepool authors")
set(CPACK_PACKAGE_CONTACT "The tidepool authors")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
# The packages of libraries that programs need are found by their names; the stand-ins need each other. Programs that are
# compiled with the headers need Abseil's too.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/cudart_host ${PROJECT_BINARY_DIR}/bindings/c)
if(NOT TIDEPOOL_ABSEIL)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libabsl-dev, zlib1g-dev")
endif()
include(CPack)
