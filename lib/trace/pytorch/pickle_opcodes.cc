// SPDX-License-Identifier: Apache-2.0
// The names of opcodes, for errors.
#include "lib/trace/pytorch/pickle_opcodes.h"

#include <array>

namespace tidepool::pytorch {
namespace {

struct NamedOpcode {
  Opcode opcode;
  const char* name;
};

constexpr auto kNamedOpcodes = std::to_array<NamedOpcode>({
    {Opcode::kMark, "MARK"},
    {Opcode::kStop, "STOP"},
    {Opcode::kPop, "POP"},
    {Opcode::kPopMark, "POP_MARK"},
    {Opcode::kDup, "DUP"},
    {Opcode::kFloat, "FLOAT"},
    {Opcode::kInt, "INT"},
    {Opcode::kBinInt, "BININT"},
    {Opcode::kBinInt1, "BININT1"},
    {Opcode::kLong, "LONG"},
    {Opcode::kBinInt2, "BININT2"},
    {Opcode::kNone, "NONE"},
    {Opcode::kPersid, "PERSID"},
    {Opcode::kBinPersid, "BINPERSID"},
    {Opcode::kReduce, "REDUCE"},
    {Opcode::kString, "STRING"},
    {Opcode::kBinString, "BINSTRING"},
    {Opcode::kShortBinString, "SHORT_BINSTRING"},
    {Opcode::kUnicode, "UNICODE"},
    {Opcode::kBinUnicode, "BINUNICODE"},
    {Opcode::kAppend, "APPEND"},
    {Opcode::kBuild, "BUILD"},
    {Opcode::kGlobal, "GLOBAL"},
    {Opcode::kDict, "DICT"},
    {Opcode::kEmptyDict, "EMPTY_DICT"},
    {Opcode::kAppends, "APPENDS"},
    {Opcode::kGet, "GET"},
    {Opcode::kBinGet, "BINGET"},
    {Opcode::kInst, "INST"},
    {Opcode::kLongBinGet, "LONG_BINGET"},
    {Opcode::kList, "LIST"},
    {Opcode::kEmptyList, "EMPTY_LIST"},
    {Opcode::kObj, "OBJ"},
    {Opcode::kPut, "PUT"},
    {Opcode::kBinPut, "BINPUT"},
    {Opcode::kLongBinPut, "LONG_BINPUT"},
    {Opcode::kSetItem, "SETITEM"},
    {Opcode::kTuple, "TUPLE"},
    {Opcode::kEmptyTuple, "EMPTY_TUPLE"},
    {Opcode::kSetItems, "SETITEMS"},
    {Opcode::kBinFloat, "BINFLOAT"},
    {Opcode::kBinBytes, "BINBYTES"},
    {Opcode::kShortBinBytes, "SHORT_BINBYTES"},
    {Opcode::kProto, "PROTO"},
    {Opcode::kNewObj, "NEWOBJ"},
    {Opcode::kExt1, "EXT1"},
    {Opcode::kExt2, "EXT2"},
    {Opcode::kExt4, "EXT4"},
    {Opcode::kTuple1, "TUPLE1"},
    {Opcode::kTuple2, "TUPLE2"},
    {Opcode::kTuple3, "TUPLE3"},
    {Opcode::kNewTrue, "NEWTRUE"},
    {Opcode::kNewFalse, "NEWFALSE"},
    {Opcode::kLong1, "LONG1"},
    {Opcode::kLong4, "LONG4"},
    {Opcode::kShortBinUnicode, "SHORT_BINUNICODE"},
    {Opcode::kBinUnicode8, "BINUNICODE8"},
    {Opcode::kBinBytes8, "BINBYTES8"},
    {Opcode::kEmptySet, "EMPTY_SET"},
    {Opcode::kAddItems, "ADDITEMS"},
    {Opcode::kFrozenSet, "FROZENSET"},
    {Opcode::kNewObjEx, "NEWOBJ_EX"},
    {Opcode::kStackGlobal, "STACK_GLOBAL"},
    {Opcode::kMemoize, "MEMOIZE"},
    {Opcode::kFrame, "FRAME"},
    {Opcode::kByteArray8, "BYTEARRAY8"},
    {Opcode::kNextBuffer, "NEXT_BUFFER"},
    {Opcode::kReadOnlyBuffer, "READONLY_BUFFER"},
});

// Names by byte; nullptr for unknown opcodes.
constexpr std::array<const char*, 256> kNames = [] {
  std::array<const char*, 256> names = {};
  for (const NamedOpcode& named : kNamedOpcodes) {
    names[static_cast<std::uint8_t>(named.opcode)] = named.name;
  }
  return names;
}();

}  // namespace

const char* OpcodeName(std::uint8_t byte) { return kNames[byte]; }

}  // namespace tidepool::pytorch
