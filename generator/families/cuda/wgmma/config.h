// The config of family cuda_wgmma.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/families/cuda/common/choices.h"

namespace kiln {

/// Hopper: TMA, wgmma, warp-specialized. "Left" gives the
/// instruction's 64 rows, "right" its columns; left is A, or B when swapped.
struct CudaWgmma {
  static constexpr std::string_view kFamily = "cuda_wgmma";
  int left = 128, right = 256;  // rows of either operand in a tile
  int stages = 4;               // of 128 bytes of k each
  int warpgroups = 2;           // consumers
  bool pingpong = false;        // consumer warpgroups take whole tiles alternately
  bool swap = false;
  int cluster_left = 1, cluster_right = 1;  // neighbouring tiles; multicast copies
  Sharing sharing = Sharing::tiles;
  int splits = 1;
  Along along = Along::left;
  int group = 8;                        // tiles across a band; side of a Hilbert square
  bool pack_a = false, pack_b = false;  // copied into an aligned, k-major workspace first
  bool keep_right = false;              // L2 hint: keep the right operand, evict the left one first
  bool promote = false;                 // each stage's accumulators are added in fp32
  bool paired = false;  // rows of D at any address: stored by pairs straight from registers
  bool clip = false;    // copies end with the operand: none of rows that do not exist
  bool halves = false;  // fp32: multiplied in two parts of half precision, split in the workspace
  bool alternate = false;   // promote: the two warpgroups of a tile take turns at the tensor cores
  bool tma_scales = false;  // scales of blocks along k are brought by the copy engine
  bool gather = false;      // rows of A by index are copied as they are needed, not packed first
  bool bring = false;       // matrices that an expression reads are copied while k is multiplied
  auto operator<=>(const CudaWgmma&) const = default;

  static constexpr auto fields() {
    using C = CudaWgmma;
    return std::tuple{Field<C, int>{"left", &C::left},
                      Field<C, int>{"right", &C::right},
                      Field<C, int>{"stages", &C::stages},
                      Field<C, int>{"warpgroups", &C::warpgroups},
                      Field<C, bool>{"pingpong", &C::pingpong},
                      Field<C, bool>{"swap", &C::swap},
                      Field<C, int>{"cluster_left", &C::cluster_left},
                      Field<C, int>{"cluster_right", &C::cluster_right},
                      Field<C, Sharing>{"sharing", &C::sharing},
                      Field<C, int>{"splits", &C::splits},
                      Field<C, Along>{"along", &C::along},
                      Field<C, int>{"group", &C::group},
                      Field<C, bool>{"pack_a", &C::pack_a},
                      Field<C, bool>{"pack_b", &C::pack_b},
                      Field<C, bool>{"keep_right", &C::keep_right},
                      Field<C, bool>{"promote", &C::promote},
                      Field<C, bool>{"paired", &C::paired, 1, true},
                      Field<C, bool>{"clip", &C::clip, 1, true},
                      Field<C, bool>{"halves", &C::halves, 1, true},
                      Field<C, bool>{"alternate", &C::alternate, 1, true},
                      Field<C, bool>{"tma_scales", &C::tma_scales, 1, true},
                      Field<C, bool>{"gather", &C::gather, 1, true},
                      Field<C, bool>{"bring", &C::bring, 1, true}};
  }
};

}  // namespace kiln
