// A name that is passed on: a jump through its slot, with every register and the stack as the caller
// left them, so that no signature need be known. The first call of a name finds it.
  .text
  .hidden kiln_blas_slots
  .hidden kiln_blas_find

.macro FORWARD_NAME name, index
  .globl \name
  .type \name, @function
  .p2align 4
\name:
  movq kiln_blas_slots+8*\index(%rip), %r11
  testq %r11, %r11
  jz 1f
  jmp *%r11
1:
  movl $\index, %r11d
  jmp kiln_blas_first_call
  .size \name, .-\name
.endm

// %r11: the index. Integer and vector arguments, and the number of the latter in %rax, are kept
// while the name is found. Seven registers and 128 bytes: the stack is aligned for the call.
  .type kiln_blas_first_call, @function
kiln_blas_first_call:
  .cfi_startproc
  pushq %rdi
  pushq %rsi
  pushq %rdx
  pushq %rcx
  pushq %r8
  pushq %r9
  pushq %rax
  subq $128, %rsp
  .cfi_adjust_cfa_offset 184
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  movl %r11d, %edi
  call kiln_blas_find
  movq %rax, %r11
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  addq $128, %rsp
  popq %rax
  popq %r9
  popq %r8
  popq %rcx
  popq %rdx
  popq %rsi
  popq %rdi
  .cfi_adjust_cfa_offset -184
  jmp *%r11
  .cfi_endproc
  .size kiln_blas_first_call, .-kiln_blas_first_call

#define FORWARD(name, index) FORWARD_NAME name, index
#include "forwarded.inc"

  .section .note.GNU-stack, "", @progbits
