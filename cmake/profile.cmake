# SPDX-License-Identifier: Apache-2.0
# tidepool::profile, built if SQLite was found. It is a library of its own, so that users of the pool
# need no SQLite.
if(NOT SQLite3_FOUND)
  return()
endif()

# Tests link the objects to see hidden symbols.
tidepool_add_room(lib/training/profile)
target_link_libraries(tidepool_room_profile PRIVATE SQLite::SQLite3)

add_library(tidepool_profile $<TARGET_OBJECTS:tidepool_room_profile>)
add_library(tidepool::profile ALIAS tidepool_profile)
target_link_libraries(tidepool_profile
  PUBLIC tidepool PRIVATE SQLite::SQLite3 Threads::Threads $<BUILD_INTERFACE:tidepool_flags>)
set_target_properties(tidepool_profile PROPERTIES LINKER_LANGUAGE CXX
  EXPORT_NAME profile INSTALL_RPATH "$ORIGIN")
tidepool_number(tidepool_profile ${PROJECT_VERSION} ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
