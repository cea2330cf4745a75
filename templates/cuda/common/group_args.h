//% if groups
//% if lists
// One product of a list as a call of its own. Expects abi.h, list_abi.h.
//% else
// One group of a grouped problem as a product of its own. Expects abi.h and, from the parameters,
// the types.
//% end
#pragma once

//% if k_groups
/// The call of one group's product, seen as a batch's: `step_a` and `step_b` elements lie between
/// neighbours along k.
KILN_DEVICE KilnGpuArgs args_of_group(const KilnGpuArgs& args, i64 group, i64 first_k, i64 k,
                                      i64 step_a, i64 step_b) {
  KilnGpuArgs own = args;
  own.k = k;
  own.a = static_cast<const TypeA*>(args.a) + first_k * step_a;
  own.b = static_cast<const TypeB*>(args.b) + first_k * step_b;
  //% if bias_as_d
  using TypeBias = TypeD;
  //% else
  using TypeBias = Real;
  //% end
  //% if bias == per_row
  own.bias = static_cast<const TypeBias*>(args.bias) + group * args.m;
  //% end
  //% if bias == per_column
  own.bias = static_cast<const TypeBias*>(args.bias) + group * args.n;
  //% end
  return own;
}
//% end
//% if lists
/// The list in the workspace.
KILN_DEVICE const KilnListEntry* entries_of(const KilnGpuArgs& args) {
  return static_cast<const KilnListEntry*>(args.workspace);
}

//% if list_maps
/// The tensor maps of one product's left and right operand, behind all entries.
KILN_DEVICE KilnTensorMap* maps_of(const KilnGpuArgs& args, int product) {
  const i64 behind = ceil_div(args.batch * i64(sizeof(KilnListEntry)), 128) * 128;
  return reinterpret_cast<KilnTensorMap*>(static_cast<unsigned char*>(args.workspace) + behind) +
         i64(product) * 2;
}

//% end
/// The call of one product, seen as a batch's.
KILN_DEVICE KilnGpuArgs args_of_product(const KilnGpuArgs& args, int product) {
  const KilnListEntry& entry = entries_of(args)[product];
  KilnGpuArgs own = args;
  own.m = entry.m;
  own.n = entry.n;
  own.k = entry.k;
  own.lda = entry.lda;
  own.ldb = entry.ldb;
  own.ldc = entry.ldc;
  own.ldd = entry.ldd;
  own.stride_a = own.stride_b = own.stride_c = own.stride_d = 0;
  own.a = entry.a;
  own.b = entry.b;
  own.c = entry.c;
  own.d = entry.d;
  own.bias = entry.bias;
  own.residual = entry.residual;
  //% if list_maps && scales
  own.scale_a = entry.scale_a;
  own.scale_b = entry.scale_b;
  //% end
  //% if list_maps && scale_d
  own.scale_d = entry.scale_d;
  //% end
  //% if !list_maps && scales || !list_maps && scale_d
  // Less what output_of() adds for a batch.
  //% if tensor_scale_a
  own.scale_a = static_cast<const float*>(entry.scale_a) - product;
  //% end
  //% if line_scale_a && !tensor_scale_a
  own.scale_a = static_cast<const float*>(entry.scale_a) - product * entry.m;
  //% end
  //% if tensor_scale_b
  own.scale_b = static_cast<const float*>(entry.scale_b) - product;
  //% end
  //% if line_scale_b && !tensor_scale_b && gate
  own.scale_b = static_cast<const float*>(entry.scale_b) - product * 2 * entry.n;
  //% end
  //% if line_scale_b && !tensor_scale_b && !gate
  own.scale_b = static_cast<const float*>(entry.scale_b) - product * entry.n;
  //% end
  //% if scale_d
  own.scale_d = static_cast<float*>(entry.scale_d) - product;
  //% end
  //% end
  return own;
}
//% end
//% if row_groups
/// The call of one group's product, seen as a batch's: `step_a` elements lie between rows of A.
KILN_DEVICE KilnGpuArgs args_of_group(const KilnGpuArgs& args, i64 group, i64 first_row, i64 rows,
                                      i64 step_a) {
  KilnGpuArgs own = args;
  own.m = rows;
  own.batch = 1;
  //% if expression && !masked
  own.first_row = first_row;
  //% end
  //% if gather
  own.index_a = static_cast<const int*>(args.index_a) + first_row;
  //% else
  own.a = static_cast<const TypeA*>(args.a) + first_row * step_a;
  //% end
  //% if scatter
  own.index_d = static_cast<const int*>(args.index_d) + first_row;
  //% else
  own.d = static_cast<TypeD*>(args.d) + first_row * args.ldd;
  //% end
  own.c = static_cast<const TypeD*>(args.c) + first_row * args.ldc;
  own.residual = static_cast<const TypeD*>(args.residual) + first_row * args.ldd;
  //% if bias_as_d
  using TypeBias = TypeD;
  //% else
  using TypeBias = Real;
  //% end
  //% if bias == per_row && masked
  own.bias = static_cast<const TypeBias*>(args.bias) + group * args.m;
  //% end
  //% if bias == per_row && !masked
  own.bias = static_cast<const TypeBias*>(args.bias) + first_row;
  //% end
  //% if bias == per_column && gate
  own.bias = static_cast<const TypeBias*>(args.bias) + group * 2 * args.n;
  //% end
  //% if bias == per_column && !gate
  own.bias = static_cast<const TypeBias*>(args.bias) + group * args.n;
  //% end
  // Less what output_of() adds for a batch.
  //% if tensor_scale_a && !masked
  own.scale_a = static_cast<const float*>(args.scale_a) - group;
  //% end
  //% if line_scale_a && !tensor_scale_a && !masked && !gather
  own.scale_a = static_cast<const float*>(args.scale_a) + first_row - group * rows;
  //% end
  //% if line_scale_a && !tensor_scale_a && gather
  own.scale_a = static_cast<const float*>(args.scale_a) - group * rows;
  //% end
  //% if line_scale_a && !tensor_scale_a && masked
  own.scale_a = static_cast<const float*>(args.scale_a) + group * (args.m - rows);
  //% end
  //% if zero_a == tensor && !masked
  own.zero_a = static_cast<const u32*>(args.zero_a) - group;
  //% end
  //% if zero_a == line && !masked
  own.zero_a = static_cast<const u32*>(args.zero_a) + first_row - group * rows;
  //% end
  //% if zero_a == line && masked
  own.zero_a = static_cast<const u32*>(args.zero_a) + group * (args.m - rows);
  //% end
  //% if scale_d == tensor && !masked
  own.scale_d = static_cast<float*>(args.scale_d) - group;
  //% end
  //% if scale_d && scale_d != tensor && !masked
  own.scale_d =
      static_cast<float*>(args.scale_d) + (first_row - group * rows) * scales_of_row(args.n);
  //% end
  //% if scale_d && scale_d != tensor && masked
  own.scale_d = static_cast<float*>(args.scale_d) + group * (args.m - rows) * scales_of_row(args.n);
  //% end
  return own;
}
//% end
//% end
