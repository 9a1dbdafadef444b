# SPDX-License-Identifier: Apache-2.0
# The report's page, as a source of the program.
set(report ${CMAKE_CURRENT_LIST_DIR})
set(scripts text.js decode.js axis.js raster.js charts.js explore.js composition.js main.js)
list(TRANSFORM scripts PREPEND ${report}/ OUTPUT_VARIABLE script_files)
string(REPLACE ";" "," script_names "${scripts}")
set(TIDEPOOL_REPORT_SOURCES ${CMAKE_CURRENT_BINARY_DIR}/page_sources.cc)
add_custom_command(
  OUTPUT ${TIDEPOOL_REPORT_SOURCES}
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${report} -DSCRIPTS=${script_names} -DOUTPUT=${TIDEPOOL_REPORT_SOURCES}
          -P ${report}/embed.cmake
  DEPENDS ${report}/embed.cmake ${report}/report.html ${report}/report.css ${script_files}
  COMMENT "Embedding the report's page")
