// As forward_x86_64.S. x16 and x17 are free between a call and its function.
  .text
  .hidden kiln_blas_slots
  .hidden kiln_blas_find

.macro FORWARD_NAME name, index
  .globl \name
  .type \name, %function
  .p2align 4
\name:
  adrp x16, kiln_blas_slots+8*\index
  ldr x16, [x16, #:lo12:kiln_blas_slots+8*\index]
  cbz x16, 1f
  br x16
1:
  mov w16, #\index
  b kiln_blas_first_call
  .size \name, .-\name
.endm

  .type kiln_blas_first_call, %function
kiln_blas_first_call:
  stp x29, x30, [sp, #-224]!
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x8, [sp, #80]
  stp q0, q1, [sp, #96]
  stp q2, q3, [sp, #128]
  stp q4, q5, [sp, #160]
  stp q6, q7, [sp, #192]
  mov w0, w16
  bl kiln_blas_find
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldr x8, [sp, #80]
  ldp q0, q1, [sp, #96]
  ldp q2, q3, [sp, #128]
  ldp q4, q5, [sp, #160]
  ldp q6, q7, [sp, #192]
  ldp x29, x30, [sp], #224
  br x16
  .size kiln_blas_first_call, .-kiln_blas_first_call

#define FORWARD(name, index) FORWARD_NAME name, index
#include "forwarded.inc"

  .section .note.GNU-stack, "", %progbits
