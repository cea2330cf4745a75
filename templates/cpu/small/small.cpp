// Small problems: every size is a constant, nothing is packed, tiles are unrolled as far as
// kUnroll. Expects abi.h, vector.h, epilogue.h, share.h and the parameters.

constexpr int kNr = kNv * kLanes;

//% if b_k_major
/// Element k and those that follow it, as many as a vector holds or k has, of N vectors of columns.
template <int N, int Columns, int Count>
KILN_INLINE void turn_some(Unit* to, const TypeB* b, int column, int k) {
  KILN_UNROLL
  for (int j = 0; j < N; ++j) {
    UnitVec block[kLanes];
    KILN_UNROLL
    for (int r = 0; r < kLanes; ++r) {
      const int x = j * kLanes + r;
      block[r] = x < Columns ? load_units<kLanes>(b + (column + x) * kLdb + k, i64(Count))
                             : UnitVec(Unit(0));
    }
    transpose<kLanes>(block);
    KILN_UNROLL
    for (int r = 0; r < Count; ++r) store(to + ((k + r) * N + j) * kLanes, block[r]);
  }
}

/// Columns of one strip side by side: the order in which its tiles read them.
template <int N, int Columns>
KILN_INLINE void turn(Unit* to, const TypeB* b, int column) {
  constexpr int kWhole = kK / kLanes * kLanes;
#pragma clang loop unroll(disable)
  for (int k = 0; k < kWhole; k += kLanes) turn_some<N, Columns, kLanes>(to, b, column, k);
  if constexpr (kWhole < kK) turn_some<N, Columns, kK - kWhole>(to, b, column, kWhole);
}
//% end

//% if narrow_edge
template <int... I>
KILN_INLINE Vec<Unit, sizeof...(I)> lanes_of(UnitVec v, Sequence<int, I...>) {
  return __builtin_shufflevector(v, v, I...);
}
/// The first lanes of a vector, which are a register's low part.
template <int L>
KILN_INLINE Vec<Unit, L> low_lanes(UnitVec v) {
  return lanes_of(v, Iota<L>{});
}

/// complete(), of narrow vectors.
template <typename V>
KILN_INLINE void complete(V& acc) {
  __asm__ volatile("" : "+v"(acc) : : "memory");
}
//% end

/// M rows by N vectors, of which `Columns` elements exist.
template <int M, int N, int Columns>
KILN_INLINE void tile(const TypeA* a,
                      //% if b_k_major
                      const Unit* b,  // the strip's columns, turned
                      //% else
                      const TypeB* b,
                      //% end
                      const Output& out, int row, int column) {
  AccVec acc[M][N];
  KILN_UNROLL
  for (int i = 0; i < M; ++i) {
    KILN_UNROLL
    for (int j = 0; j < N; ++j) acc[i][j] = AccVec(Acc(0));
  }
  //% if narrow_edge
  // The last columns' last vector is narrow; kWide others are not. A core whose units are half as
  // wide as its vectors computes two halves in the time of one vector.
  constexpr int kEdge = Columns < N * kLanes ? kEdgeLanes : kLanes;
  constexpr int kWide = kEdge < kLanes ? N - 1 : N;
  Vec<Acc, kEdge> edge[M];
  KILN_UNROLL
  for (int i = 0; i < M; ++i) edge[i] = Vec<Acc, kEdge>(Acc(0));
  //% end
  auto step = [&](int k) __attribute__((always_inline)) {
    UnitVec right[N];
    KILN_UNROLL
    //% if b_k_major
    for (int j = 0; j < N; ++j) right[j] = load<UnitVec>(b + (k * N + j) * kLanes);
    //% else
    for (int j = 0; j < N; ++j)
      right[j] =
          load_across<kLanes>(b + k * kLdb + column + j * kLanes, kLdb, 1, Columns - j * kLanes);
    //% end
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      //% if a_k_major
      UnitVec left = UnitVec(gather_unit(a + (row + i) * kLda + k, 1, 1));
      //% else
      UnitVec left = UnitVec(gather_unit(a + k * kLda + row + i, 1, 1));
      //% end
      //% if narrow_edge
      KILN_UNROLL
      for (int j = 0; j < kWide; ++j) acc[i][j] = dot(acc[i][j], left, right[j]);
      if constexpr (kWide < N)
        edge[i] = fused(low_lanes<kEdge>(left), low_lanes<kEdge>(right[kWide]), edge[i]);
      //% else
      KILN_UNROLL
      for (int j = 0; j < N; ++j) acc[i][j] = dot(acc[i][j], left, right[j]);
      //% end
    }
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      //% if narrow_edge
      KILN_UNROLL
      for (int j = 0; j < kWide; ++j) complete(acc[i][j]);
      if constexpr (kWide < N) complete(edge[i]);
      //% else
      KILN_UNROLL
      for (int j = 0; j < N; ++j) complete(acc[i][j]);
      //% end
    }
  };
  //% if unroll_all
  KILN_UNROLL
  for (int k = 0; k < kK; ++k) step(k);
    //% else
#pragma clang loop unroll_count(kUnroll) vectorize(disable)
  for (int k = 0; k < kK; ++k) step(k);
  //% end
  KILN_UNROLL
  for (int i = 0; i < M; ++i) {
    //% if narrow_edge
    KILN_UNROLL
    for (int j = 0; j < kWide; ++j)
      finish<kLanes>(out, acc[i][j], row + i, column + j * kLanes, kLanes, {true, true});
    if constexpr (kWide < N)
      finish<kEdge>(out, edge[i], row + i, column + kWide * kLanes, Columns - kWide * kLanes,
                    {true, true});
    //% else
    KILN_UNROLL
    for (int j = 0; j < N; ++j)
      finish<kLanes>(out, acc[i][j], row + i, column + j * kLanes, Columns - j * kLanes,
                     {true, true});
    //% end
  }
}

/// All rows of one strip of columns.
template <int N, int Columns>
KILN_INLINE void strip(const TypeA* a,
                       //% if b_k_major
                       const TypeB* lines,
                       //% else
                       const TypeB* b,
                       //% end
                       const Output& out, int column) {
  //% if b_k_major
  alignas(64) Unit b[kK * N * kLanes];
  turn<N, Columns>(b, lines, column);
  //% end
  //% if whole_rows
  for (int i = 0; i + kMr <= kM; i += kMr) tile<kMr, N, Columns>(a, b, out, i, column);
  //% end
  //% if tail_rows
  tile<kTailRows, N, Columns>(a, b, out, kM - kTailRows, column);
  //% end
}

extern "C" long long kiln_workspace_bytes(const KilnArgs*, int) { return 0; }

KILN_INLINE void multiply(const KilnArgs& args,
                          //% if stream_rows
                          bool streams,
                          //% end
                          i64 batch) {
  const auto* a = static_cast<const TypeA*>(args.a) + batch * args.stride_a;
  const auto* b = static_cast<const TypeB*>(args.b) + batch * args.stride_b;
  Output out = output_of(args, batch);
  out.ldd = kLdd;
  out.ldc = kLdc;
  //% if stream_rows
  out.streams = streams;
  //% end
  //% if whole_columns
  for (int j = 0; j + kNr <= kN; j += kNr) strip<kNv, kNr>(a, b, out, j);
  //% end
  //% if tail_vectors
  strip<kTailVectors, kN % kNr>(a, b, out, kN / kNr * kNr);
  //% end
}

//% if batched || amax || expression
extern "C" void kiln_gemm(const KilnArgs* args, int thread, int threads) {
  const Work work = work_of(*args, thread, threads);
  //% if stream_rows
  // Two loops, in each of which the compiler knows `streams`: a branch at every store takes as long
  // as streaming saves.
  if (output_of(*args, 0).streams && args->stride_d * i64(sizeof(TypeD)) % kStreamed == 0) {
    for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch)
      multiply(*args, true, batch);
    __builtin_ia32_sfence();  // streamed stores come before whatever the caller does next
    return;
  }
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch)
    multiply(*args, false, batch);
  //% else
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) multiply(*args, batch);
  //% end
}
//% else
extern "C" __attribute__((noinline)) void kiln_direct(const void* a, const void* b, const void* c,
                                                      void* d, const void* bias,
                                                      const void* residual, double alpha,
                                                      double beta) {
  KilnArgs args{};  // none of it is left in the code
  args.a = a;
  args.b = b;
  args.c = c;
  args.d = d;
  args.bias = bias;
  args.residual = residual;
  args.alpha = alpha;
  args.beta = beta;
  multiply(args, 0);
}
extern "C" void kiln_gemm(const KilnArgs* args, int thread, int) {
  if (thread == 0)
    kiln_direct(args->a, args->b, args->c, args->d, args->bias, args->residual, args->alpha,
                args->beta);
}
//% end
