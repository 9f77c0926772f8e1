/* Body of the stream entry. */

static void stream(char *to, const char *from, size_t bytes) {
    size_t head = -(uintptr_t)to & 63, i = head < bytes ? head : bytes;
    memcpy(to, from, i);
    for (; i + 64 <= bytes; i += 64)
        for (int k = 0; k < 64; k += VBYTES)
            vf_stream((float *)(to + i + k), vf_load((const float *)(from + i + k)));
    memcpy(to + i, from + i, bytes - i);
}
