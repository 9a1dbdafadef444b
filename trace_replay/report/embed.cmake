# SPDX-License-Identifier: Apache-2.0
# Writes a C++ source that holds the page's sources: cmake -DFOLDER=... -DSCRIPTS=a.js,b.js -DOUTPUT=... -P embed.cmake
cmake_minimum_required(VERSION 3.22)

# Converts a hexadecimal number of 64 digits to base64.
function(hash_base64 hex result)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text "")
  string(APPEND hex "00")  # 33 bytes, in eleven groups of three
  foreach(group RANGE 10)
    math(EXPR begin "6 * ${group}")
    string(SUBSTRING "${hex}" ${begin} 6 digits)
    foreach(shift 18 12 6 0)
      math(EXPR index "(0x${digits} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${index} 1 letter)
      string(APPEND text "${letter}")
    endforeach()
  endforeach()
  string(SUBSTRING "${text}" 0 43 text)
  set(${result} "${text}=" PARENT_SCOPE)
endfunction()

function(append_bytes name hex)
  string(REPEAT "." 32 line)
  string(REGEX REPLACE "(${line})" "\\1\n" bytes "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  file(APPEND "${OUTPUT}.part" "constexpr char ${name}Bytes[] = {\n${bytes}0};\n"
       "const std::string_view ${name}(${name}Bytes, sizeof(${name}Bytes) - 1);\n")
endfunction()

function(append_hash name file)
  file(SHA256 "${file}" hash)
  hash_base64("${hash}" hash)
  file(APPEND "${OUTPUT}.part" "const std::string_view ${name} = \"'sha256-${hash}'\";\n")
endfunction()

file(WRITE "${OUTPUT}.part" "// Made by embed.cmake.\n#include \"trace_replay/report/page_sources.h\"\n\n"
     "namespace tidepool::tool {\n")
file(READ "${FOLDER}/report.html" hex HEX)
append_bytes(kPageTemplate "${hex}")
file(READ "${FOLDER}/report.css" hex HEX)
append_bytes(kPageStyle "${hex}")
append_hash(kPageStyleHash "${FOLDER}/report.css")

# Joins the scripts in their order.
string(REPLACE "," ";" scripts "${SCRIPTS}")
set(all "")
foreach(script ${scripts})
  file(READ "${FOLDER}/${script}" hex HEX)
  string(APPEND all "${hex}")
endforeach()
append_bytes(kPageScript "${all}")
find_program(cat cat REQUIRED)
list(TRANSFORM scripts PREPEND "${FOLDER}/")
execute_process(COMMAND "${cat}" ${scripts} OUTPUT_FILE "${OUTPUT}.js" COMMAND_ERROR_IS_FATAL ANY)
append_hash(kPageScriptHash "${OUTPUT}.js")
file(APPEND "${OUTPUT}.part" "}  // namespace tidepool::tool\n")
file(RENAME "${OUTPUT}.part" "${OUTPUT}")
