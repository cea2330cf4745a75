# Writes OUT, a C++ file that holds the bytes of FILE as NAMESPACE::NAME and its size as NAMEBytes.
file(READ ${FILE} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "namespace ${NAMESPACE} {
extern const unsigned char ${NAME}[];
extern const unsigned long ${NAME}Bytes;
const unsigned char ${NAME}[] = {
${bytes}};
const unsigned long ${NAME}Bytes = sizeof(${NAME});
}  // namespace ${NAMESPACE}
")
