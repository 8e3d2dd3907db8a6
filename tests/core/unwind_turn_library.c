/*
 * Two libraries from this source, of the same layout: the call returns to the same offset in both,
 * but the frames around it differ.  Loaded in turn they come to lie at one address.
 */
__attribute__((visibility("default"))) int turn(void (*leaf)(void));

int turn(void (*leaf)(void))
{
    volatile char large[TURN_BYTES];

    large[0] = 1;
    leaf();
    return large[0];
}
