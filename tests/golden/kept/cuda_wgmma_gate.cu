// device:  sm_90a
// problem: bf16 N T 4096 14336 4096 align=16 gate=silu
// config:  cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=2 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=0

// ---- parameters ----
using TypeA = Bfloat;                           // elements of A
using TypeB = Bfloat;                           // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 256;                 // rows of the right operand in it
constexpr int kDepth = 64;                      // k of one stage
constexpr int kStages = 4;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 128;                      // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 2;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kChunk = 32;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kHeld = 16;                       // sums of a thread that are finished together
constexpr int kCopyRegisters = 40;              // of the warps that copy
constexpr int kMultiplyRegisters = 232;         // of the warps that multiply
constexpr int kTurnBarrier = 1;                 // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 0;                // front of the workspace
constexpr bool kPackA = false;                  // A is copied into the workspace first
constexpr bool kPackB = false;                  // B is copied into the workspace first
constexpr bool kAlongKA = true;                 // A's neighbours run along k
constexpr bool kAlongKB = true;                 // B's neighbours run along k
constexpr bool kSwap = false;                   // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = false;            // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = false;           // the right operand's rows are neighbours
constexpr u64 kLeftHint = 0x1000000000000000;   // L2 policy: evict first, or normal
constexpr u64 kRightHint = 0x1000000000000000;  // L2 policy: evict last, or normal
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, " \
  "%72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, " \
  "%88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, " \
  "%104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127}"
#define KILN_WGMMA_OPERANDS "%128, %129, p, 1, 1, 0, 0"
#define KILN_WGMMA_ACCUMULATE "130"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), \
  "+f"((d)[48]), "+f"((d)[49]), "+f"((d)[50]), "+f"((d)[51]), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]), \
  "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]), "+f"((d)[62]), "+f"((d)[63]), \
  "+f"((d)[64]), "+f"((d)[65]), "+f"((d)[66]), "+f"((d)[67]), "+f"((d)[68]), "+f"((d)[69]), "+f"((d)[70]), "+f"((d)[71]), \
  "+f"((d)[72]), "+f"((d)[73]), "+f"((d)[74]), "+f"((d)[75]), "+f"((d)[76]), "+f"((d)[77]), "+f"((d)[78]), "+f"((d)[79]), \
  "+f"((d)[80]), "+f"((d)[81]), "+f"((d)[82]), "+f"((d)[83]), "+f"((d)[84]), "+f"((d)[85]), "+f"((d)[86]), "+f"((d)[87]), \
  "+f"((d)[88]), "+f"((d)[89]), "+f"((d)[90]), "+f"((d)[91]), "+f"((d)[92]), "+f"((d)[93]), "+f"((d)[94]), "+f"((d)[95]), \
  "+f"((d)[96]), "+f"((d)[97]), "+f"((d)[98]), "+f"((d)[99]), "+f"((d)[100]), "+f"((d)[101]), "+f"((d)[102]), "+f"((d)[103]), \
  "+f"((d)[104]), "+f"((d)[105]), "+f"((d)[106]), "+f"((d)[107]), "+f"((d)[108]), "+f"((d)[109]), "+f"((d)[110]), "+f"((d)[111]), \
  "+f"((d)[112]), "+f"((d)[113]), "+f"((d)[114]), "+f"((d)[115]), "+f"((d)[116]), "+f"((d)[117]), "+f"((d)[118]), "+f"((d)[119]), \
  "+f"((d)[120]), "+f"((d)[121]), "+f"((d)[122]), "+f"((d)[123]), "+f"((d)[124]), "+f"((d)[125]), "+f"((d)[126]), "+f"((d)[127])
#define KILN_WGMMA_REGISTER "f"
#define KILN_TURN_BRANCHES "turns: .branchtargets t0, t1, t2, t3, t4, t5, t6, t7;\n" \
  "brx.idx %144, turns;\n" \
  "t0: mov.b32 %0, %16; mov.b32 %1, %17; mov.b32 %2, %18; mov.b32 %3, %19; mov.b32 %4, %20; mov.b32 %5, %21; mov.b32 %6, %22; mov.b32 %7, %23; mov.b32 %8, %24; mov.b32 %9, %25; mov.b32 %10, %26; mov.b32 %11, %27; mov.b32 %12, %28; mov.b32 %13, %29; mov.b32 %14, %30; mov.b32 %15, %31;\nbra done;\n" \
  "t1: mov.b32 %0, %32; mov.b32 %1, %33; mov.b32 %2, %34; mov.b32 %3, %35; mov.b32 %4, %36; mov.b32 %5, %37; mov.b32 %6, %38; mov.b32 %7, %39; mov.b32 %8, %40; mov.b32 %9, %41; mov.b32 %10, %42; mov.b32 %11, %43; mov.b32 %12, %44; mov.b32 %13, %45; mov.b32 %14, %46; mov.b32 %15, %47;\nbra done;\n" \
  "t2: mov.b32 %0, %48; mov.b32 %1, %49; mov.b32 %2, %50; mov.b32 %3, %51; mov.b32 %4, %52; mov.b32 %5, %53; mov.b32 %6, %54; mov.b32 %7, %55; mov.b32 %8, %56; mov.b32 %9, %57; mov.b32 %10, %58; mov.b32 %11, %59; mov.b32 %12, %60; mov.b32 %13, %61; mov.b32 %14, %62; mov.b32 %15, %63;\nbra done;\n" \
  "t3: mov.b32 %0, %64; mov.b32 %1, %65; mov.b32 %2, %66; mov.b32 %3, %67; mov.b32 %4, %68; mov.b32 %5, %69; mov.b32 %6, %70; mov.b32 %7, %71; mov.b32 %8, %72; mov.b32 %9, %73; mov.b32 %10, %74; mov.b32 %11, %75; mov.b32 %12, %76; mov.b32 %13, %77; mov.b32 %14, %78; mov.b32 %15, %79;\nbra done;\n" \
  "t4: mov.b32 %0, %80; mov.b32 %1, %81; mov.b32 %2, %82; mov.b32 %3, %83; mov.b32 %4, %84; mov.b32 %5, %85; mov.b32 %6, %86; mov.b32 %7, %87; mov.b32 %8, %88; mov.b32 %9, %89; mov.b32 %10, %90; mov.b32 %11, %91; mov.b32 %12, %92; mov.b32 %13, %93; mov.b32 %14, %94; mov.b32 %15, %95;\nbra done;\n" \
  "t5: mov.b32 %0, %96; mov.b32 %1, %97; mov.b32 %2, %98; mov.b32 %3, %99; mov.b32 %4, %100; mov.b32 %5, %101; mov.b32 %6, %102; mov.b32 %7, %103; mov.b32 %8, %104; mov.b32 %9, %105; mov.b32 %10, %106; mov.b32 %11, %107; mov.b32 %12, %108; mov.b32 %13, %109; mov.b32 %14, %110; mov.b32 %15, %111;\nbra done;\n" \
  "t6: mov.b32 %0, %112; mov.b32 %1, %113; mov.b32 %2, %114; mov.b32 %3, %115; mov.b32 %4, %116; mov.b32 %5, %117; mov.b32 %6, %118; mov.b32 %7, %119; mov.b32 %8, %120; mov.b32 %9, %121; mov.b32 %10, %122; mov.b32 %11, %123; mov.b32 %12, %124; mov.b32 %13, %125; mov.b32 %14, %126; mov.b32 %15, %127;\nbra done;\n" \
  "t7: mov.b32 %0, %128; mov.b32 %1, %129; mov.b32 %2, %130; mov.b32 %3, %131; mov.b32 %4, %132; mov.b32 %5, %133; mov.b32 %6, %134; mov.b32 %7, %135; mov.b32 %8, %136; mov.b32 %9, %137; mov.b32 %10, %138; mov.b32 %11, %139; mov.b32 %12, %140; mov.b32 %13, %141; mov.b32 %14, %142; mov.b32 %15, %143;\n"
#define KILN_TURN_TAKEN(d) "=&f"((d)[0]), "=&f"((d)[1]), "=&f"((d)[2]), "=&f"((d)[3]), "=&f"((d)[4]), "=&f"((d)[5]), "=&f"((d)[6]), "=&f"((d)[7]), "=&f"((d)[8]), "=&f"((d)[9]), "=&f"((d)[10]), "=&f"((d)[11]), "=&f"((d)[12]), "=&f"((d)[13]), "=&f"((d)[14]), "=&f"((d)[15])
#define KILN_TURN_SUMS(d) "f"((d)[0][0]), "f"((d)[0][1]), "f"((d)[0][2]), "f"((d)[0][3]), "f"((d)[0][4]), "f"((d)[0][5]), \
  "f"((d)[0][6]), "f"((d)[0][7]), "f"((d)[0][8]), "f"((d)[0][9]), "f"((d)[0][10]), "f"((d)[0][11]), \
  "f"((d)[0][12]), "f"((d)[0][13]), "f"((d)[0][14]), "f"((d)[0][15]), "f"((d)[0][16]), "f"((d)[0][17]), \
  "f"((d)[0][18]), "f"((d)[0][19]), "f"((d)[0][20]), "f"((d)[0][21]), "f"((d)[0][22]), "f"((d)[0][23]), \
  "f"((d)[0][24]), "f"((d)[0][25]), "f"((d)[0][26]), "f"((d)[0][27]), "f"((d)[0][28]), "f"((d)[0][29]), \
  "f"((d)[0][30]), "f"((d)[0][31]), "f"((d)[0][32]), "f"((d)[0][33]), "f"((d)[0][34]), "f"((d)[0][35]), \
  "f"((d)[0][36]), "f"((d)[0][37]), "f"((d)[0][38]), "f"((d)[0][39]), "f"((d)[0][40]), "f"((d)[0][41]), \
  "f"((d)[0][42]), "f"((d)[0][43]), "f"((d)[0][44]), "f"((d)[0][45]), "f"((d)[0][46]), "f"((d)[0][47]), \
  "f"((d)[0][48]), "f"((d)[0][49]), "f"((d)[0][50]), "f"((d)[0][51]), "f"((d)[0][52]), "f"((d)[0][53]), \
  "f"((d)[0][54]), "f"((d)[0][55]), "f"((d)[0][56]), "f"((d)[0][57]), "f"((d)[0][58]), "f"((d)[0][59]), \
  "f"((d)[0][60]), "f"((d)[0][61]), "f"((d)[0][62]), "f"((d)[0][63]), "f"((d)[0][64]), "f"((d)[0][65]), \
  "f"((d)[0][66]), "f"((d)[0][67]), "f"((d)[0][68]), "f"((d)[0][69]), "f"((d)[0][70]), "f"((d)[0][71]), \
  "f"((d)[0][72]), "f"((d)[0][73]), "f"((d)[0][74]), "f"((d)[0][75]), "f"((d)[0][76]), "f"((d)[0][77]), \
  "f"((d)[0][78]), "f"((d)[0][79]), "f"((d)[0][80]), "f"((d)[0][81]), "f"((d)[0][82]), "f"((d)[0][83]), \
  "f"((d)[0][84]), "f"((d)[0][85]), "f"((d)[0][86]), "f"((d)[0][87]), "f"((d)[0][88]), "f"((d)[0][89]), \
  "f"((d)[0][90]), "f"((d)[0][91]), "f"((d)[0][92]), "f"((d)[0][93]), "f"((d)[0][94]), "f"((d)[0][95]), \
  "f"((d)[0][96]), "f"((d)[0][97]), "f"((d)[0][98]), "f"((d)[0][99]), "f"((d)[0][100]), "f"((d)[0][101]), \
  "f"((d)[0][102]), "f"((d)[0][103]), "f"((d)[0][104]), "f"((d)[0][105]), "f"((d)[0][106]), "f"((d)[0][107]), \
  "f"((d)[0][108]), "f"((d)[0][109]), "f"((d)[0][110]), "f"((d)[0][111]), "f"((d)[0][112]), "f"((d)[0][113]), \
  "f"((d)[0][114]), "f"((d)[0][115]), "f"((d)[0][116]), "f"((d)[0][117]), "f"((d)[0][118]), "f"((d)[0][119]), \
  "f"((d)[0][120]), "f"((d)[0][121]), "f"((d)[0][122]), "f"((d)[0][123]), "f"((d)[0][124]), "f"((d)[0][125]), \
  "f"((d)[0][126]), "f"((d)[0][127])
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/common/epilogue.h ----
// What happens to a sum: alpha, beta·C, then the expression that follows, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

/// x / y for y from 1 on, to two units in the last place; 0 beyond 2^126. Without the branch of an
/// exact division the elements of a lane are computed beside each other.
KILN_DEVICE float quotient(float x, float y) { return __fmul_rn(x, near_reciprocal(y)); }
KILN_DEVICE double quotient(double x, double y) { return x / y; }

/// Rounded before anything is added: whether a compiler would fuse alpha · sum with the bias behind
/// it differs from kernel to kernel, and the bits of an element must not. The product beta · C
/// behind it is left to the compiler, which always fuses it: there is one way only.
KILN_DEVICE float product(float x, float y) { return __fmul_rn(x, y); }
KILN_DEVICE double product(double x, double y) { return __dmul_rn(x, y); }

/// 1 / (1 + 2^-x) to some roundoffs of 1: what x lost in the exponent is small beside 1 where it
/// is large.
KILN_DEVICE float logistic(float x) { return near_reciprocal(1.0f + near_exp2(-x)); }
KILN_DEVICE double logistic(double x) { return 1.0 / (1.0 + exp(x * -0.6931471805599453)); }
KILN_DEVICE Real silu(Real x) { return product(x, logistic(x * Real(1.4426950408889634))); }

/// x · y + z, rounded once.
KILN_DEVICE Real fused(Real x, Real y, Real z) { return fma(x, y, z); }

/// An element of a matrix where it is there, else 0.
KILN_DEVICE Real real_if(const float* from, bool there) {
  return Real(bits_to_float(load_if(reinterpret_cast<const u32*>(from), there)));
}
KILN_DEVICE Real real_if(const double* from, bool there) {
  const u64 bits = load_if(reinterpret_cast<const u64*>(from), there);
  return Real(__longlong_as_double(static_cast<long long>(bits)));
}
KILN_DEVICE Real real_if(const Half* from, bool there) {
  return to_real(Half{load_if(reinterpret_cast<const u16*>(from), there)});
}
/// Of the other types of D.
template <typename T>
KILN_DEVICE Real real_if(const T* from, bool there) {
  return there ? to_real(*from) : Real(0);
}
KILN_DEVICE Real real_if(const Bfloat* from, bool there) {
  return to_real(Bfloat{load_if(reinterpret_cast<const u16*>(from), there)});
}

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
  i64 ldd, ldc;
  i64 rows, columns;
  Real alpha, beta;
  // None.
};

KILN_DEVICE Output output_of(const KilnGpuArgs& args, i64 batch) {
  Output out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  out.ldd = args.ldd;
  out.ldc = args.ldc;
  out.rows = args.m;
  out.columns = args.n;
  out.alpha = Real(args.alpha);
  out.beta = Real(args.beta);
  // None.
  return out;
}

/// Columns of the product under one of D: of what goes through the gate, and of the other factor.
KILN_DEVICE i64 first_factor(const Output& out, i64 column) {
  return column;
}
KILN_DEVICE i64 second_factor(const Output& out, i64 column) {
  return out.columns + column;
}

/// A sum with alpha, the scales of its row and of the product's column, and the bias.
KILN_DEVICE Real factor(const Output& out, Real x, i64 row, i64 column) {
  x = product(x, out.alpha);
  return x;
}

/// The sums of both products with alpha, their scales and biases; those outside D read nothing.
KILN_DEVICE void make_factors(const Output& out, Real& first, Real& second, i64 row, i64 column) {
  first = factor(out, first, row, first_factor(out, column));
  second = factor(out, second, row, second_factor(out, column));
}

/// What the expression reads for one element; those outside D read nothing.
struct Extras {
  // None.
  Real other;  // the second product's element
};
KILN_DEVICE Extras extras_at(const Output& out, i64 row, i64 column) {
  using Value = Real;
  const bool in_row = row < out.rows, in_column = column < out.columns;
  Extras x;
  // None.
  return x;
}
/// The expression's value for one element; what else is stored is left in `x`.
KILN_DEVICE Real finish(const Output& out, Real v, i64 row, i64 column, Extras& x) {
  using Value = Real;
  const Value acc0 = v;
  const Value acc1 = x.other;
  v = product(silu(acc0), acc1);
  return v;
}
/// The same of the sums of both products; what else is stored is.
KILN_DEVICE Real gated(const Output& out, Real first, Real second, i64 row, i64 column, Extras& x) {
  make_factors(out, first, second, row, column);
  x.other = second;
  const Real v = finish(out, first, row, column, x);
  return v;
}
KILN_DEVICE Real gated(const Output& out, Real first, Real second, i64 row, i64 column) {
  Extras x = extras_at(out, row, column);
  return gated(out, first, second, row, column, x);
}

struct TwoDoubles {
  u64 x, y;
};
/// The bits of an element, and of two.
template <typename T>
struct InMemory {
  using One = u16;
  using Two = u32;
};
template <>
struct InMemory<float> {
  using One = u32;
  using Two = u64;
};
template <>
struct InMemory<double> {
  using One = u64;
  using Two = TwoDoubles;
};
template <typename T>
KILN_DEVICE typename InMemory<T>::One bits_if(const T* from, bool there) {
  return load_if(reinterpret_cast<const typename InMemory<T>::One*>(from), there);
}
/// Of two elements that are a word of memory.
template <typename T>
KILN_DEVICE typename InMemory<T>::Two word_at(const T* from) {
  return load_at(reinterpret_cast<const typename InMemory<T>::Two*>(from));
}
KILN_DEVICE TwoDoubles word_at(const double* from) {
  return TwoDoubles{bits_if(from, true), bits_if(from + 1, true)};
}
/// The same of a vector, which is read again for each line: ordinary loads, of which the compiler
/// makes one.
template <typename T>
KILN_DEVICE typename InMemory<T>::One bits_at(const T* from) {
  return *reinterpret_cast<const typename InMemory<T>::One*>(from);
}
template <typename T>
KILN_DEVICE typename InMemory<T>::Two word_of_line(const T* from) {
  return *reinterpret_cast<const typename InMemory<T>::Two*>(from);
}
KILN_DEVICE TwoDoubles word_of_line(const double* from) {
  return TwoDoubles{bits_at(from), bits_at(from + 1)};
}
KILN_DEVICE u32 word_of(u16 x, u16 y) { return u32(x) | u32(y) << 16; }
KILN_DEVICE u64 word_of(u32 x, u32 y) { return u64(x) | u64(y) << 32; }
KILN_DEVICE TwoDoubles word_of(u64 x, u64 y) { return TwoDoubles{x, y}; }

KILN_DEVICE Real real_of_bits(u16 x, Half) { return to_real(Half{x}); }
KILN_DEVICE Real real_of_bits(u16 x, Bfloat) { return to_real(Bfloat{x}); }
KILN_DEVICE Real real_of_bits(u32 x, float) { return Real(bits_to_float(x)); }
KILN_DEVICE Real real_of_bits(u64 x, double) {
  return Real(__longlong_as_double(static_cast<long long>(x)));
}
template <typename T>
KILN_DEVICE void split_word(u32 word, T, Real& x, Real& y) {
  x = real_of_bits(u16(word), T{});
  y = real_of_bits(u16(word >> 16), T{});
}
KILN_DEVICE void split_word(u64 word, float, Real& x, Real& y) {
  x = real_of_bits(u32(word), float{});
  y = real_of_bits(u32(word >> 32), float{});
}
KILN_DEVICE void split_word(const TwoDoubles& word, double, Real& x, Real& y) {
  x = real_of_bits(word.x, double{});
  y = real_of_bits(word.y, double{});
}

template <typename T>
struct alignas(2 * sizeof(T)) Pair {
  T x, y;
};
template <typename T>
KILN_DEVICE void store_pair(T* to, Real x, Real y) {
  *reinterpret_cast<Pair<T>*>(to) = Pair<T>{from_real(x, T{}), from_real(y, T{})};
}
KILN_DEVICE void store_pair(Half* to, Real x, Real y) {
  *reinterpret_cast<u32*>(to) = pack_two(x, y, Half{});
}
KILN_DEVICE void store_pair(Bfloat* to, Real x, Real y) {
  *reinterpret_cast<u32*>(to) = pack_two(x, y, Bfloat{});
}

/// Whether elements 2i and 2i + 1 of each line are words of memory.
template <typename T>
KILN_DEVICE bool in_words(const T* from, i64 ld) {
  return ((reinterpret_cast<u64>(from) | u64(ld) * sizeof(T)) & (2 * sizeof(T) - 1)) == 0;
}
/// Whether that is so of all that is read and stored in pairs.
KILN_DEVICE bool pairs_fit(const Output& out) {
  return out.columns % 2 == 0;
}

/// What is read of matrices and vectors for two elements.
struct Words {
  // None.
};
/// The second element is kDown below the first and kRight to the right of it. Both are in D, and
/// pairs fit.
template <int kDown, int kRight>
KILN_DEVICE Words words_inside(const Output& out, i64 row, i64 column) {
  constexpr bool first = true, second = true;
  Words w;
  // None.
  return w;
}
template <int kDown, int kRight>
KILN_DEVICE Words words_at_edge(const Output& out, i64 row, i64 column) {
  const bool first = row < out.rows && column < out.columns;
  const bool second = row + kDown < out.rows && column + kRight < out.columns;
  Words w;
  // None.
  return w;
}
/// What is read of single values for one element.
template <bool Inside>
KILN_DEVICE Extras vectors_at(const Output& out, i64 row, i64 column) {
  using Value = Real;
  const bool in_row = Inside || row < out.rows, in_column = Inside || column < out.columns;
  Extras x;
  // None.
  return x;
}
/// All that is read for two elements.
template <int kDown, int kRight, bool Inside>
KILN_DEVICE void extras_of_two(const Output& out, const Words& w, i64 row, i64 column, Extras& x,
                               Extras& y) {
  x = vectors_at<Inside>(out, row, column);
  y = vectors_at<Inside>(out, row + kDown, column + kRight);
  // None.
}

// ---- cuda/wgmma/copy.h ----
// The warpgroup that copies: bulk tensor copies of both operands into the ring. Expects abi.h,
// hopper_ptx.h, grid_ptx.h, tile_scheduler.h, ring.h.

/// Copies this block's share of one operand's rows and hands it to every block that needs it.
template <bool AcrossK, int Rows, int Sharers>
KILN_DEVICE void copy_rows(u32 to, const KilnTensorMap* map,
                           u32 barrier, int row, int k, int batch, u32 share, u16 mask, u64 hint) {
  if constexpr (AcrossK) {
    // Boxes of 64 rows by a share of the stage's k, k being the slow direction.
    constexpr int kShare = kDepth / Sharers;
    const u32 offset = share * kShare * 128;
    _Pragma("unroll") for (int block = 0; block < (Rows + 63) / 64; ++block) {
      const u32 there = to + block * 64 * 128 + offset;
      if constexpr (Sharers > 1)
        tma_load_multicast_3d(there, map, barrier, row + block * 64, k + int(share) * kShare, batch,
                              mask, hint);
      else
        tma_load_3d(there, map, barrier, row + block * 64, k, batch, hint);
    }
  } else {
    constexpr int kShare = Rows / Sharers;
    if constexpr (Sharers > 1)
      tma_load_multicast_3d(to + share * kShare * 128, map, barrier, k, row + int(share) * kShare,
                            batch, mask, hint);
    else
      tma_load_3d(to, map, barrier, k, row, batch, hint);
  }
}

/// Lines of one block's tile of B: units of each factor's lines in turn.
constexpr int kUnit = kSwap ? kWarpgroupRows / 2 : kRightTile / 2;

/// As copy_rows(), of B's two factors, which the map counts as batches. `line`: of either factor.
template <bool AcrossK, int Lines, int Sharers>
KILN_DEVICE void copy_factors(u32 to, const KilnTensorMap* map, u32 barrier, int line, int k,
                              int batch, u32 share, u16 mask, u64 hint) {
  constexpr int kUnits = Lines / kUnit / Sharers, kBox = AcrossK ? 64 : kUnit;
  _Pragma("unroll") for (int i = 0; i < kUnits; ++i) {
    const int unit = int(share) * kUnits + i;
    _Pragma("unroll") for (int at = 0; at < kUnit; at += kBox) {
      const u32 there = to + (unit * kUnit + at) * 128;
      const int first = line + unit / 2 * kUnit + at, factor = batch * 2 + unit % 2;
      if constexpr (Sharers > 1)
        tma_load_multicast_3d(there, map, barrier, AcrossK ? first : k, AcrossK ? k : first, factor,
                              mask, hint);
      else
        tma_load_3d(there, map, barrier, AcrossK ? first : k, AcrossK ? k : first, factor, hint);
    }
  }
}

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args, u32 rank) {
  const int left_rows = int(kSwap ? 2 * args.n : args.m);
  const int right_rows = int(kSwap ? args.m : 2 * args.n);
  return TileScheduler::start(
      (left_rows + kLeftTile * kClusterLeft - 1) / (kLeftTile * kClusterLeft),
      (right_rows + kRightTile * kClusterRight - 1) / (kRightTile * kClusterRight),
      (int(args.k) + kDepth - 1) / kDepth, int(args.batch), rank);
}

/// One thread fills the ring.
KILN_DEVICE void copy_all(const Shared& shared, TileScheduler scheduler,
                          const KilnTensorMap* left,
                          const KilnTensorMap* right
) {
  const u32 rank_left = scheduler.rank % kClusterLeft, rank_right = scheduler.rank / kClusterLeft;
  // The blocks with my rows of the left operand, and those with my rows of the right one.
  const u16 same_left = kClusterRight > 1 ? (1 << kCluster) - 1 : 1;
  const u16 same_right = kClusterLeft > 1 ? (1 << kCluster) - 1 : 1;
  Turn turn;
  Work work;
  bool more = scheduler.take(work);
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  for (; more; more = scheduler.take(work)) {
    for (int i = 0; i < work.count; ++i) {
      mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const u32 barrier = shared.full + turn.stage * 8;
      const u32 to = shared.ring + turn.stage * kStageBytes;
      const int k = (work.begin + i) * kDepth;
      mbarrier_expect(barrier, kStageBytes);
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(to, left, barrier, work.left * kLeftTile, k,
                                                        work.batch, rank_right, same_left,
                                                        kLeftHint);
      copy_factors<kRightAcrossK, kRightTile, kClusterLeft>(
          to + kLeftBytes, right, barrier, work.right * (kRightTile / 2), k, work.batch, rank_left,
          same_right, kRightHint);
      turn.step();
    }
  }
}

// ---- cuda/wgmma/store.h ----
// A warp's sums to D: finished in registers a chunk at a time, then through swizzled buffers of its
// own in shared memory and the copy engine, or coalesced stores, or straight from registers. Warps
// never wait for each other here. Expects epilogue.h, hopper_ptx.h, store_ptx.h.

/// Element (row of left, row of right) of a tile as (row, column) of D.
KILN_DEVICE i64 row_of(i64 left, i64 right) { return kSwap ? right : left; }
KILN_DEVICE i64 column_of(i64 left, i64 right) { return kSwap ? left : right; }

KILN_DEVICE Real real_of(float x) { return x; }
KILN_DEVICE float kept(Real x) { return x; }
KILN_DEVICE Real first_real(float sum) { return sum; }

/// D's tile, of half as many columns as B's has lines: what follows sees it alone.
namespace of_d {
constexpr int kSums = kSwap ? ::kSums : ::kSums / 2,
              kSubtiles = kSwap ? ::kSubtiles / 2 : ::kSubtiles;
constexpr int kLeftTile = kSwap ? ::kLeftTile / 2 : ::kLeftTile;
constexpr int kRightTile = kSwap ? ::kRightTile : ::kRightTile / 2;
constexpr int kTurns = kSubtiles * kSums / kHeld;

/// What one turn sees.
namespace of_turn {
constexpr int kSums = kHeld;
constexpr int kPart = kSums;
/// Sums that are finished together: enough loads in flight, few registers beside the sums.
constexpr int kTogether = kPart % 16 == 0 ? 16 : kPart % 8 == 0 ? 8 : 4;

/// The elements of a matrix like D under sums [i, i + kTogether); zero outside. `left`, `right`: of
/// sum 0.
KILN_DEVICE void load_under(Real (&x)[kTogether],
                            const TypeD* from,
                            i64 ld, const Output& out, i64 left, i64 right, int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    const i64 row = row_of(l, r), column = column_of(l, r);
    x[e] = row < out.rows && column < out.columns ? to_real(from[row * ld + column]) : Real(0);
  }
}

/// What the expression reads of matrices for sums [i, i + kTogether).
KILN_DEVICE void load_words(Words (&words)[kTogether / 2], const Output& out, i64 left, i64 right,
                            int i, bool in_pairs) {
  constexpr int kDown = kSwap ? 1 : 0, kRight = kSwap ? 0 : 1;
  if (in_pairs) {
    _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
      const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
      words[e / 2] = words_inside<kDown, kRight>(out, row_of(l, r), column_of(l, r));
    }
  } else {
    _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
      const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
      words[e / 2] = words_at_edge<kDown, kRight>(out, row_of(l, r), column_of(l, r));
    }
  }
}
template <bool Inside>
KILN_DEVICE void make_extras(Extras (&extras)[kTogether], const Words (&words)[kTogether / 2],
                             const Output& out, i64 left, i64 right, int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
    extras_of_two<kSwap ? 1 : 0, kSwap ? 0 : 1, Inside>(out, words[e / 2], row_of(l, r),
                                                        column_of(l, r), extras[e], extras[e + 1]);
  }
}

/// alpha, beta·C and the rest for sums [i, i + kTogether), in place.
KILN_DEVICE void finish_sums(Acc (&sums)[kSums], const Output& out, i64 left, i64 right,
                             const Words (&words)[kTogether / 2], bool inside, bool in_pairs,
                             const Acc (&others)[kSums],
                             int i) {
  Real passed[kTogether];
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    Acc sum = sums[i + e], other = others[i + e];
    Real first = first_real(sum);
    passed[e] = first_real(other);
    make_factors(out, first, passed[e], row_of(l, r), column_of(l, r));
    sums[i + e] = kept(first);
  }
  Extras extras[kTogether];
  if (inside)
    make_extras<true>(extras, words, out, left, right, i);
  else
    make_extras<false>(extras, words, out, left, right, i);
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) extras[e].other = passed[e];
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    sums[i + e] = kept(finish(out, real_of(sums[i + e]), row_of(l, r), column_of(l, r), extras[e]));
  }
  // Otherwise loads of later sums move up here, and sums already fill the registers.
  compiler_barrier();
}

KILN_DEVICE TypeD stored(Acc sum, bool exact) {
  return from_real(real_of(sum), TypeD{});
}

constexpr int kPitch = (kSwap ? 16 : kChunk) * int(sizeof(TypeD));  // bytes of a buffer's row

KILN_DEVICE u32 swizzled(int row, int unit) { return swizzled_byte(row, unit, kPitch); }

}  // namespace of_turn

/// A warp's sums of a turn, 16 left rows by 2 * kHeld right rows of D, into its buffer: `word(i)`
/// is what of sums i and i + 1.
template <typename F>
KILN_DEVICE void fill_with_pairs(u32 buffer, int lane, F&& word) {
  constexpr int kPitch = (kSwap ? 16 : kHeld * 2) * 2;
  _Pragma("unroll") for (int g = 0; g < kHeld / 4; g += kHeld == 4 ? 1 : 2) {
    const int i = g * 4;
    const int row = lane & 15;
    if constexpr (kHeld == 4)
      stmatrix_x2(buffer + swizzled_byte(row, g, kPitch), word(i), word(i + 2));
    else
      stmatrix_x4(buffer + swizzled_byte(row, g + (lane >> 4), kPitch), word(i), word(i + 2),
                  word(i + 4), word(i + 6));
  }
}

/// A warp's part of a tile: its first element, and whether all of it is in D, in words of memory.
struct WarpTile {
  i64 left0, right0;
  bool inside, in_pairs;
};
KILN_DEVICE WarpTile warp_tile(const Output& out, const Work& work, u32 row_offset, int thread) {
  WarpTile at;
  at.left0 = i64(work.left) * kLeftTile + row_offset + thread / 32 * 16;
  at.right0 = i64(work.right) * kRightTile;
  at.inside = at.left0 + (kSubtiles * 64 - 48) <= (kSwap ? out.columns : out.rows) &&
              at.right0 + kRightTile <= (kSwap ? out.rows : out.columns);
  at.in_pairs = at.inside && pairs_fit(out);
  return at;
}
KILN_DEVICE void load_turn(Words (&words)[kHeld / 2], const Output& out, const WarpTile& at,
                           int turn, int lane) {
  of_turn::load_words(words, out, at.left0 + turn / (kSums / kHeld) * 64 + lane / 4,
                      at.right0 + turn % (kSums / kHeld) * (kHeld * 2) + lane % 4 * 2, 0,
                      at.in_pairs);
}

/// One warpgroup's part of a tile.
KILN_DEVICE void store_tile(
    const Acc (&sums)[::kSubtiles][::kSums],
    const Work& work, const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
    u32 row_offset, int group, int thread) {
  Output out = output_of(args, work.batch);
  keep_in_register(out.alpha);
  const int warp = thread / 32, lane = thread & 31;
  const WarpTile at = warp_tile(out, work, row_offset, thread);
  const bool exact = false;
  const u32 mine = buffers + u32(group * 4 + warp) * kStoreBuffers * kBufferBytes;
  constexpr int kUnrolled = 1;
  // What the next turn needs of matrices is on its way while this one computes.
  Words next[kHeld / 2];
  load_turn(next, out, at, 0, lane);
  _Pragma("unroll kUnrolled") for (int turn = 0; turn < kTurns; ++turn) {
    const i64 left = at.left0 + turn / (kSums / kHeld) * 64;
    const i64 right = at.right0 + turn % (kSums / kHeld) * (kHeld * 2);
    Acc some[kHeld];
    Acc others[kHeld];
    const int first = turn / (kSums / kHeld) * (::kSums / kHeld) + turn % (kSums / kHeld);
    take_sums(some, sums, first);
    take_sums(others, sums, first + (kSwap ? kTurns : kSums / kHeld));
    Words words[kHeld / 2];
    _Pragma("unroll") for (int e = 0; e < kHeld / 2; ++e) words[e] = next[e];
    if (turn + 1 < kTurns) load_turn(next, out, at, turn + 1, lane);
    of_turn::finish_sums(some, out, left + lane / 4, right + lane % 4 * 2, words, at.inside,
                         at.in_pairs, others, 0);
    const u32 here = mine + u32(turn % kStoreBuffers) * kBufferBytes;
    // An odd number of turns leaves the first buffer to the last store of the tile before.
    if (lane == 0) {
      if (turn == 0)
        tma_store_wait_read<0>();
      else
        tma_store_wait_read<kStoreBuffers - 1>();
    }
    __syncwarp();
    fill_with_pairs(here, lane, [&](int i) {
      return pack_two(real_of(some[i]), real_of(some[i + 1]), TypeD{});
    });
    fence_async_shared();
    __syncwarp();
    if (lane == 0) {
      tma_store_3d(map_d, here, int(column_of(left, right)), int(row_of(left, right)), work.batch);
      tma_store_commit();
    }
  }
}
}  // namespace of_d
using of_d::store_tile;
