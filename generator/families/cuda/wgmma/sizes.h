// Sizes derived from a CudaWgmma config: read by its rules, parameters, launch and model. Knows
// no template text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "generator/families/cuda/common/cuda.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/problem/extent.h"

namespace kiln::cuda {

/// Registers of a thread: at launch, then of the warps that multiply and of those that copy.
struct WgmmaRegisters {
  int launch, multiply, copy;
};

/// Derived sizes of a problem and a config; operands are named by the side of the instruction that
/// they feed.
struct WgmmaSizes {
  std::int64_t table_bytes;  // of shared memory, for groups
  struct Side {
    DType type;  // as the instruction sees it
    std::int64_t rows;
    bool factors;   // B of a gated problem: its rows are those of two factors
    bool across_k;  // neighbouring elements run along the rows, not along k
    bool pack;
    bool turned;  // transposed on the way to shared memory, so that it becomes k-major
    MapOperand operand;
    std::int64_t ld, batch_stride;  // elements
    int scale_share;                // rows of a tile for which a stage has one scale
    Packed packed;                  // halves: with two matrices for each batch
  };
  enum class Store : std::uint8_t { tma, staged, direct };

  Side left, right;
  int parts;  // of an operand
  /// A 4-byte operand that is not k-major: wgmma takes it from registers only.
  bool left_registers;
  int depth;           // elements of k in one stage
  int warpgroup_rows;  // of the left operand
  int accumulators;    // of one thread, for 64 rows
  int subtiles;        // of 64 rows, of one warpgroup
  bool in_turn;        // which are promoted one after the other: all sums twice do not fit
  Store store;
  /// k-major operands whose last box ends with their rows (clip=1). Rows beyond them keep what
  /// shared memory held: they feed only rows and columns of D that do not exist.
  bool clip_left, clip_right;
  bool pairable;      // D has 2-byte elements that neither TMA nor a second launch stores
  int d_bytes;        // of an element
  int chunk;          // rows of the right operand that one buffer of D holds
  int store_buffers;  // of each warp
  int held;           // sums of a thread that are finished together
  /// Turns of a tile for which one place holds what an expression reads of matrices, and such parts
  /// of a tile; 0: not even one turn's fit, or there is nothing.
  int turns_of_part, parts_of_tile;
  std::int64_t part_bytes;
  std::int64_t stage_bytes, shared_bytes;
  WgmmaRegisters registers;
  /// Tiles of an odd number of 64 columns of D, of which two in a cluster have whole blocks that
  /// share a scale: their blocks tell each other the largest magnitudes.
  bool scale_pairs;
  int scale_registers;  // of a thread that multiplies, where scales are of blocks along k
  bool scales_at_once;  // lanes that bring them hold no second chunk
  std::int64_t tiles_left, tiles_right, tiles;  // of a cluster, and of all batches
  std::int64_t stages_of_k;
  int cluster, clusters;  // blocks of a cluster; clusters of the grid
  std::int64_t counters;  // in use, of kCounterBytes / 4
  std::int64_t counter_bytes, workspace_bytes;
  int partials_at_once;  // split-K and stream-K: partial accumulators that a reduction fetches
                         // together
};

WgmmaSizes wgmma_sizes(const Problem& problem, const DeviceCaps& device, const CudaWgmma& config);

/// Rows that do not begin at a line of the cache cost the copies two lines for every 128 bytes.
bool in_whole_lines(const Matrix& m);

/// Whether a tile is finished in a loop, as templates/cuda/wgmma/roll_tile.h has it. Pairs that
/// straddle words need neighbours in all of it.
bool rolls(const Gemm& gemm, const CudaWgmma& config);

/// Whether a rolled tile has so few sums that what the expression reads of matrices is loaded
/// before they are there; its turns then stand one behind the other.
bool loads_ahead(const Gemm& gemm, const CudaWgmma& config, const WgmmaSizes& sizes);

/// A matrix of D's shape that an expression reads, not only a step behind it.
struct BroughtMatrix {
  std::size_t place;  // among the expression's operands
  Operand which;
  DType type;
  bool of_rows;  // its lines are rows of D
};
std::vector<BroughtMatrix> brought_matrices(const Gemm& gemm);

/// Whether matrices that an expression reads may come through the ring (bring=1).
bool may_bring(const Gemm& gemm, const CudaWgmma& config, const WgmmaSizes& sizes);

/// Of what lanes make the values that an expression reduces, as keep_together() of store_tile.h has
/// it. Where k is cut tiles may be finished elsewhere, element by element.
Together wgmma_together(const Gemm& gemm, const CudaWgmma& config, const WgmmaSizes& sizes);

inline constexpr int kMostSplits = 128;

/// Whether TMA can address a matrix as it lies: 16-byte aligned addresses, pitches and strides.
bool aligned_for_copies(const Gemm& gemm, Operand which);
/// Whether `splits` parts suit the sharing: 1 where k is not cut, else at least a stage of k each.
bool splits_fit(Sharing sharing, int splits, const WgmmaSizes& sizes);
/// Whether a thread has registers for `sums`, beside register operands and scales.
bool sums_fit(const WgmmaSizes& sizes, int sums);
/// Whether the copy engine can bring a problem's scales of blocks along k: rows of the matrices of
/// scales are whole 16 bytes, and each tile, whose k is not divided, has whole fours of stages.
bool scales_may_be_copied(const Gemm& gemm);
/// Whether each scale that follows from D is that of elements of one tile, or of two that tell each
/// other (WgmmaSizes::scale_pairs), and of warpgroups that can wait for each other.
bool scales_of_d_fit(const Gemm& gemm, const CudaWgmma& config, const WgmmaSizes& sizes);
bool counters_fit(const WgmmaSizes& sizes);
/// Whether the positions at which stream-K cuts fit 31 bits.
bool stream_fits(Sharing sharing, const WgmmaSizes& sizes);

/// How the instruction names an operand's type; empty when it has none.
std::string_view wgmma_type(DType type);

/// The constants, macros and choices of the templates.
Parameters wgmma_parameters(const Problem& problem, const DeviceCaps& device,
                            const CudaWgmma& config, const WgmmaSizes& sizes);

/// The tensor maps and steps of one call.
GpuLaunch wgmma_launch(const Problem& problem, const DeviceCaps& device, const CudaWgmma& config,
                       const WgmmaSizes& sizes);

/// The model of the family: nanoseconds of one call.
double wgmma_ns(const Problem& problem, const DeviceCaps& device, const CudaWgmma& config,
                const WgmmaSizes& sizes);

}  // namespace kiln::cuda
