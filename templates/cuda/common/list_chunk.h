//% if lists
// What a step that brings a list is given of it. Expects list_abi.h.
#pragma once

/// Some entries of a list, few enough for the parameters of a kernel: `count` of them, from entry
/// `first` on.
struct KilnListChunk {
  long long first, count;
  //% if scales || scale_d
  KilnListEntry entries[26];
  //% else
  KilnListEntry entries[32];
  //% end
};
//% end
