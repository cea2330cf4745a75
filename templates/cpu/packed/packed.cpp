// Packed macro-kernel: blocks of k, n and m around a register tile. Expects share.h, pack.h,
// tile.h, memory.h.
//% if gate
// Columns are those of D, under each of which are two of op(B).
//% end

//% if fetch_a
/// Rows of A from `row` over k, no more than `count` of them.
KILN_INLINE Ahead rows_ahead(const KilnArgs& args, i64 row, i64 count, i64 last, i64 k0, i64 k) {
  const i64 size = sizeof(TypeA), rows = smaller(count, last - row);
  if (rows <= 0) return piece(a_at(args, 0, k0), 0, 1, 1);
  //% if a_k_major
  return piece(a_at(args, row, k0), args.lda * size, k * size, rows);
  //% else
  return piece(a_at(args, row, k0), args.lda * size, rows * size, k);
  //% end
}
//% end
//% if fetch_b
/// The block of B after the one at (k0, j): the next along k or, after the last, along n.
KILN_INLINE Ahead piece_ahead(const KilnArgs& args, Range columns, Range ks, i64 j, i64 k0) {
  const KilnDivision& blocks = args.division;
  if ((k0 += blocks.kc) >= ks.end) {
    k0 = ks.begin;
    j += blocks.nc;
  }
  if (j >= columns.end) return piece(args.b, 0, 1, 1);
  //% if b_packed
  const i64 k = smaller(blocks.kc, ks.end - k0), width = smaller(blocks.nc, columns.end - j);
  const Unit* panel = static_cast<const Unit*>(args.b) + panels_units(j, args.k);
  return piece(panel + k0 / kGroup * kLanes, panel_units(args.k) * i64(sizeof(Unit)),
               (k + kGroup - 1) / kGroup * i64(sizeof(UnitVec)), (width + kLanes - 1) / kLanes);
  //% else
  const i64 size = sizeof(TypeB), k = smaller(blocks.kc, ks.end - k0);
  const i64 width = smaller(blocks.nc, columns.end - j);
  const TypeB* b = static_cast<const TypeB*>(args.b);
  //% if stacked
  //% if b_k_major
  Ahead next = piece(b + j * args.ldb + k0, args.n * args.ldb * size, k * size, 2 * width);
  //% else
  Ahead next = piece(b + k0 * args.ldb + j, args.n * size, width * size, 2 * k);
  //% end
  next.other = args.ldb * size - next.pitch;
  return next;
  //% end
  //% if interleaved && b_k_major
  return piece(b + 2 * j * args.ldb + k0, args.ldb * size, k * size, 2 * width);
  //% end
  //% if interleaved && !b_k_major
  return piece(b + k0 * args.ldb + 2 * j, args.ldb * size, 2 * width * size, k);
  //% end
  //% if !gate && b_k_major
  return piece(b + j * args.ldb + k0, args.ldb * size, k * size, width);
  //% end
  //% if !gate && !b_k_major
  return piece(b + k0 * args.ldb + j, args.ldb * size, width * size, k);
  //% end
  //% end
}
//% end

/// Multiplies one block of A (rows) with one block of B (columns) over k.
static void block(const KilnArgs& args, const Memory& memory,
                  //% if rows_d
                  Output out,
                  //% else
                  const Output& out,
                  //% end
                  Range rows,
                  //% if fetch_a || fetch_b
                  i64 last_row, Next& next,
                  //% end
                  Range columns, i64 k0, i64 k, Pass pass) {
  //% if pack_a && a_k_major
  for (i64 i = rows.begin; i < rows.end; i += kMr)
    pack_along<kMr, kFlip>(memory.a + (i - rows.begin) * ((k + kGroup - 1) / kGroup),
                           a_at(args, i, k0), args.lda, int(smaller(kMr, rows.end - i)), k);
  //% end
  //% if pack_a && !a_k_major
  pack_across<kMr, kFlip>(memory.a, a_at(args, rows.begin, k0), args.lda, rows.end - rows.begin, k,
                          (k + kGroup - 1) / kGroup * kMr);
  //% end
  //% if fetch_a && pack_a
  next.a = rows_ahead(args, rows.end, args.division.mc, last_row, k0, k);
  //% end
  //% if stream_d
  // Both orders in one loop: the call of a tile is long, and stands here once.
  const bool inner_columns = args.division.inner_columns != 0;
  //% end
  auto one = [&](i64 i, i64 j) __attribute__((always_inline)) {
    Operand in;
    //% if fetch_a || fetch_b
    in.next = &next;
    //% end
    //% if pack_a
    in.a = memory.a + (i - rows.begin) * ((k + kGroup - 1) / kGroup);
    //% else
    in.a = a_at(args, i, k0);
    in.lda = args.lda;
    //% end
    //% if b_packed
    const Unit* panel = static_cast<const Unit*>(args.b) + panels_units(j, args.k);
    in.b = panel + k0 / kGroup * kLanes;
    in.b_pitch = panel_units(args.k) * i64(sizeof(Unit));
    //% if column_sums
    in.sums = pass.first ? panel + panel_groups(args.k) * kLanes : nullptr;
    //% end
    //% end
    //% if pack_b
    //% if interleaved
    in.b = memory.b + panels_units(2 * (j - columns.begin), k);
    //% else
    in.b = memory.b + panels_units(j - columns.begin, k);
    //% end
    //% if stacked
    in.apart = panels_units(columns.end - columns.begin, k);
    //% end
    in.b_pitch = panel_units(k) * i64(sizeof(Unit));
    //% if column_sums
    in.sums = in.b + panel_groups(k) * kLanes;
    //% end
    //% end
    //% if !packed_b
    //% if interleaved
    in.b = static_cast<const TypeB*>(args.b) + k0 * args.ldb + 2 * j;
    //% else
    in.b = static_cast<const TypeB*>(args.b) + k0 * args.ldb + j;
    //% end
    in.ldb = args.ldb;
    //% if stacked
    in.apart = args.n;
    //% end
    //% end
    //% if stream_d
    const i64 width = smaller(kNr, columns.end - j);
    Output to = out;
    if (!inner_columns) to.lines.begin = j, to.lines.end = j + width;
    any_tile(in, k, to, i, j, int(smaller(kMr, rows.end - i)), int(width), pass);
    //% else
    any_tile(in, k, out, i, j, int(smaller(kMr, rows.end - i)), int(smaller(kNr, columns.end - j)),
             pass);
    //% end
  };
  //% if rows_d
  Strips strips{memory.rows, out.d, out.ldd, columns.begin, columns.end - columns.begin};
  for (i64 i = rows.begin; i < rows.end; i += kMr) {
    //% if fetch_a && !pack_a
    // Later tiles of these rows find the next ones in L2.
    next.a = rows_ahead(args, i + kMr, kMr, last_row, k0, k);
    //% end
    out.strip = strips.begin(i, smaller(kMr, rows.end - i));
    for (i64 j = columns.begin; j < columns.end; j += kNr) {
      one(i, j);
      strips.write_some();
    }
  }
  strips.end();
  //% end
  //% if !rows_d
  //% if !stream_d
  // Both orders in one loop: the call of a tile is long, and stands here once.
  const bool inner_columns = args.division.inner_columns != 0;
  //% end
  for (i64 i = rows.begin, j = columns.begin; i < rows.end && j < columns.end;) {
    //% if fetch_a && !pack_a
    // Later tiles of these rows find the next ones in L2.
    if (j == columns.begin) next.a = rows_ahead(args, i + kMr, kMr, last_row, k0, k);
    //% end
    one(i, j);
    if (inner_columns) {
      if ((j += kNr) < columns.end) continue;
      j = columns.begin;
      i += kMr;
    } else {
      if ((i += kMr) < rows.end) continue;
      i = rows.begin;
      j += kNr;
    }
  }
  //% end
}

/// One batch: everything that one thread does of it.
static void multiply(const KilnArgs& args, const Memory& memory, Output out, Range rows,
                     //% if weights
                     const Weights& weights,
                     //% end
                     Range columns, Range ks) {
  if (rows.begin == rows.end) return;
  const i64 mc = args.division.mc, nc = args.division.nc, kc = args.division.kc;
  for (i64 j = columns.begin; j < columns.end; j += nc) {
    const Range block_columns{j, smaller(j + nc, columns.end)};
    //% if gate
    out.partial = {memory.partial, waiting_in_row(args), rows.begin, 2 * j};
    //% else
    //% if accumulate == workspace && !split_k
    out.partial = {memory.partial, smaller(nc, args.n), rows.begin, j};
    //% end
    //% end
    //% if stream_d
    out.lines = {memory.lines, kLinePitch, 0, 0, block_columns.begin, block_columns.end};
    //% end
    for (i64 k0 = ks.begin; k0 < ks.end || k0 == ks.begin; k0 += kc) {
      const i64 k = smaller(kc, ks.end - k0);
      //% if split_k
      const Pass pass{k0 == ks.begin, false};  // reduce() finishes
      //% else
      const Pass pass{k0 == ks.begin, k0 + kc >= ks.end};
      //% end
      //% if pack_b && weights && stacked
      const i64 width = block_columns.end - j;
      pack_weights(memory.b, weights, k0, j, width, k);
      pack_weights(memory.b + panels_units(width, k), weights, k0, args.n + j, width, k);
      //% end
      //% if pack_b && weights && interleaved
      pack_weights(memory.b, weights, k0, 2 * j, 2 * (block_columns.end - j), k);
      //% end
      //% if pack_b && !weights && stacked
      const i64 width = block_columns.end - j;
      pack_columns(args, memory.b, j, width, k0, k);
      pack_columns(args, memory.b + panels_units(width, k), args.n + j, width, k0, k);
      //% end
      //% if pack_b && !weights && interleaved
      pack_columns(args, memory.b, 2 * j, 2 * (block_columns.end - j), k0, k);
      //% end
      //% if pack_b && weights && !gate
      pack_weights(memory.b, weights, k0, j, block_columns.end - j, k);
      //% end
      //% if pack_b && !weights && !gate
      //% if b_k_major
      pack_panels_along(memory.b, b_at(args, k0, j), args.ldb, block_columns.end - j, k);
      //% else
      pack_panels_across(memory.b, b_at(args, k0, j), args.ldb, block_columns.end - j, k);
      //% end
      //% end
      //% if fetch_a || fetch_b
      Next next;
      //% if fetch_b
      next.b = piece_ahead(args, columns, ks, j, k0);
      //% end
      //% end
      for (i64 i = rows.begin; i < rows.end; i += mc)
        block(args, memory, out, {i, smaller(i + mc, rows.end)},
              //% if fetch_a || fetch_b
              rows.end, next,
              //% end
              block_columns, k0, k, pass);
    }
  }
}

extern "C" long long kiln_workspace_bytes(const KilnArgs* args, int threads) {
  //% if swap
  return bytes_of_thread(transposed(*args)) * threads;
  //% else
  return bytes_of_thread(*args) * threads;
  //% end
}

extern "C" void kiln_gemm(const KilnArgs* all, int thread, int threads) {
  //% if swap && line_scale_a || swap && line_scale_b
  const KilnArgs& given = *all;  // scales are those of D's rows and columns
  //% end
  //% if swap
  const Work work = transposed(work_of(*all, thread, threads));
  const KilnArgs exchanged = transposed(*all);
  all = &exchanged;
  //% end
  KilnArgs args = *all;
  const Memory memory = thread_memory(args, thread);
  //% if !swap
  const Work work = work_of(args, thread, threads);
  //% end
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) {
    args.a = static_cast<const TypeA*>(all->a) + batch * args.stride_a;
    //% if b_packed
    args.b = static_cast<const Unit*>(all->b) + batch * panels_units(args.n, args.k);
    //% end
    //% if !b_packed && !weights
    args.b = static_cast<const TypeB*>(all->b) + batch * args.stride_b;
    //% end
    //% if swap && line_scale_a || swap && line_scale_b
    Output out = output_of(given, batch);
    //% else
    Output out = output_of(args, batch);
    //% end
    //% if split_k
    Output sums = out;
    sums.partial = {memory.partial, args.n, 0, 0};
    multiply(args, memory, sums, work.rows, work.columns, work.ks);
    wait_for_all(args.barrier, threads);
    reduce(args, out, thread_memory(args, 0).partial, bytes_of_thread(args) / i64(sizeof(Acc)),
           thread, threads);
    wait_for_all(args.barrier, threads);
    //% else
    multiply(args, memory, out, work.rows,
             //% if weights
             weights_of(*all, batch),
             //% end
             work.columns, work.ks);
    //% end
  }
  //% if stream_d || rows_d
  __builtin_ia32_sfence();  // streamed stores come before whatever the caller does next
  //% end
}
