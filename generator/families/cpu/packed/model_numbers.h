// The numbers of host_packed's model that are not a core's: shares, penalties and thresholds, in
// the order in which model.cpp reads them. What a core does in a cycle is its row of
// common/microarchitectures.h. Knows no problem and no config.
//
// Sources. [fit]: the figures with which the model ranked some 8000 measurements of 55 products
// best (Zen 5; docs/lessons/tuner.md, "Models of CPU kernels"); [measured]: what is said beside it,
// or in docs/lessons/host_packed.md; [counted]: instructions of the generated code; [trial]: chosen
// by trial, no measurement is kept. A number is changed with its comment, and tests/golden/rankings
// shows what it moves.
#pragma once

#include <cstdint>

namespace kiln::host::packed_model {

// --- A call, in nanoseconds.
inline constexpr double kCallNs = 25;      // before its first tile [measured at 8×8×8]
inline constexpr double kTeamNs = 2000;    // to wake the other threads [trial]
inline constexpr double kReduceNs = 1000;  // to meet before partial results are added [trial]

// --- What stays in a cache, as shares of it; the rest is for what passes through.
inline constexpr double kBlocksInL2 = 0.8;       // both blocks [trial]
inline constexpr double kTilesInL1 = 0.8;        // the block and the strip of a tile [trial]
inline constexpr double kBlockInL2 = 0.7;        // the block that the inner loop reads [trial]
inline constexpr double kStripInL1 = 0.7;        // the strip that stays for all tiles [trial]
inline constexpr double kStripOfPages = 0.5;     // of L1: of a B whose rows are pages apart [trial]
inline constexpr double kAgainInL2 = 0.7;        // A, until its next columns of B [trial]
inline constexpr double kWaitingInL2 = 0.5;      // accumulators between blocks of k [trial]
inline constexpr double kWaitingRowsInL1 = 0.5;  // rows of D before they leave [trial]

// --- Arithmetic: loads and stalls of a register tile.
/// Instructions for a broadcast of an unpacked A that is converted [counted].
inline constexpr double kConvertingLoads = 4;
/// Loads for one of an A whose rows are too many or share a set of L1: 14 rows ran at a third of
/// the speed [measured].
inline constexpr double kScatteredLoads = 3;
inline constexpr int kRowsOfPointers = 10;  // that base registers are there for [measured: 14 fail]
inline constexpr int kRowsOfASet = 8;       // a multiple of a page apart that L1 keeps [trial]
inline constexpr int kStepsOnPages = 64;  // k of an unpacked A along m that few pages hold [trial]
/// Bytes of a row from which on the next one counts as on another page [trial].
inline constexpr std::int64_t kRowApart = 1024;
inline constexpr double kUnalignedLoads = 2;   // of a vector of B across lines [counted]
inline constexpr double kGatheredLoads = 2.8;  // of a vector put together from rows of B [fit]
/// Of a load beside a dot: fewer loads leave more room to those that miss [trial].
inline constexpr double kLoadStall = 0.08;
// Factors of a step [trial but for the last].
inline constexpr double kUnalignedStep = 1.06;  // vectors of B across lines
inline constexpr double kSingleStep = 1.04;     // a loop that is not unrolled
inline constexpr double kPrefetchingStep = 1.03;
inline constexpr double kFetchingStep = 1.05;  // the next block's lines fetched [fit]
// Of a tile beside its steps, in dots: its prologue, and D for each of its vectors [trial].
inline constexpr double kTileDots = 30, kStoreDots = 3;

// --- Streams from a cache to the registers.
/// Rows of B pages apart, in a strip that leaves L1: half the speed at n = 1024 [measured; the
/// factor of the stream alone: trial].
inline constexpr double kPagedStream = 3;

// --- A B whose rows are apart, from memory: by how much longer than in order.
/// Bytes of a row from which on units of several rows lose the prefetchers: u8s8 4×358×8016 took
/// 545 us before it, 243 since [measured].
inline constexpr std::int64_t kNarrowRow = 256;
// Packed 256 columns at a time: 33, 38, 50 ms with kc = 32, 128, 512, 16 in order [measured].
inline constexpr double kLongRuns = 2, kLongRunsDoubling = 0.25;
inline constexpr double kLongRunsK = 32, kLongRunsLeast = 1.75, kLongRunsMost = 3;
inline constexpr double kShortRuns = 3.3;  // 64 columns at a time: 54 ms to those 16 [measured]
// Unpacked: prefetchers follow 16 rows; 2.5 ms with kc = 16, 9 with 128 [measured].
inline constexpr double kFollowedRows = 16, kUnfollowedMost = 3.5;
inline constexpr double kNotPrefetched = 1.1;  // 10 % expected of 8 steps ahead [trial]

// --- Waiting while a block of B is packed (22×2026×189 int8: 35 us in L2, 74 beyond it, 50 fetched
// ahead), as a share of reading it [fit].
inline constexpr double kWaitingForB = 1.2;

// --- D, as tiles write it.
/// Rows of D pages apart, down the columns: 20 to 30 % at k = 16 [measured].
inline constexpr double kPagedRows = 1.3;
inline constexpr std::int64_t kPage = 4096;  // bytes
// More rows side by side have more lines on their way, until these leave L1: 843×369×4 with 4 to
// 500 rows, above lines_of_d() [measured].
inline constexpr double kOneRow = 1.12, kRowsDoubling = 0.06;
inline constexpr double kLinesInL1 = 0.3, kBeyondDoubling = 0.45;
inline constexpr double kMixedRows = 3;  // ends of lines down the columns, of those along [trial]

// --- D in the order of its rows: 843×369 joined 29 us, aligned rows 50, others 115 [measured].
inline constexpr double kRowsOfMemory = 0.5;  // of the bytes' time [it ranked those best, Zen 4]
inline constexpr double kMixedEndNs = 100, kLineEndNs = 30;  // of a run, shared or whole lines
// Three quarters of two transfers through L1, or of three through L2, do not hide: two strips of
// 113 KB took 11 % longer [measured].
inline constexpr double kWaitingL1 = 1.5, kWaitingL2 = 2.25;

// --- What hardware prefetchers miss at the beginning of rows.
inline constexpr double kLateBytes = 614;  // of each row, some ten lines [trial]
inline constexpr double kLateMost = 0.6;   // of the operand's time [trial]
inline constexpr double kPieceFetched =
    0.3;  // of a piece of a panel: 30 to 50 of 100 ns [measured]

// --- Packed weights that a block waits for, as shares of what could hide: 128×4096×4096 and fewer
// rows, above waiting_for_panels_ns() [measured].
inline constexpr double kPanels = 0.7, kPanelsPrefetched = 0.4, kPanelsFetched = 0.1;

// --- Packing: the share of a unit's time by the bytes of a block's panels in L1 [fit].
inline constexpr double kPanelInL1 = 0.25, kPanelDoubling = 0.45;
inline constexpr double kPanelLeast = 0.6, kPanelMost = 0.85;
inline constexpr double kSpilledPacking = 1.6;    // where the packed operand leaves L2 [trial]
inline constexpr double kTransposedLineNs = 1.5;  // of a row that a transposing store ends [trial]

// --- What is not the longest part, and does not hide behind it, as shares.
inline constexpr double kExposed = 0.35;         // [fit]
inline constexpr double kExposedPacking = 0.25;  // packing A reads it in long runs by itself [fit]
inline constexpr double kExposedFetched = 0.18;  // next blocks are fetched ahead [fit]
inline constexpr double kExposedResults = 0.33;  // of D, beside arithmetic or a stream [fit]
// An operand that comes from memory in order, and takes as long as most of the arithmetic, is held
// up by fetching it: 4096×16×4096 took 8.2 ms instead of 5.5 [measured].
inline constexpr double kMostOfCompute = 0.8, kHeldUp = 0.6;

}  // namespace kiln::host::packed_model
