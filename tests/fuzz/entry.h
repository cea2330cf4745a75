// What tells one fuzz program from another, so that their driver is compiled once for all of them.
#pragma once

namespace kiln::test {

struct FuzzEntry {
  const char* name;
  const char* corpus;  // its kept inputs: a folder of fuzz/corpus
  int mutations;       // of each kept input, where no time is given
};
extern const FuzzEntry kFuzzEntry;

}  // namespace kiln::test
