/* A virtual machine that is nothing but a program: it writes blocks of its disk and reads them again, in random order and several at a time, and compares each
 * with what it wrote there last. It knows that from its memory, so a disk that loses a write, or brings an older one back, while the machine moves is seen by
 * whoever has it then. QEMU starts it by -kernel (Multiboot); the disk is the first virtio-blk-pci, by the legacy interface (Virtual I/O Device 1.2, 2.4.2,
 * 4.1.4.8, 5.2.6), and is polled.
 *
 * It says what it does at port 0xe9 (isa-debugcon), and ends by port 0xf4 (isa-debug-exit): QEMU's status is 33 where all was right. It goes on until a byte
 * comes by the serial port.
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

enum {
    BLOCK_BYTES = 4096, /* of a block that is written and read whole */
    WORDS = BLOCK_BYTES / 4,
    BLOCKS = 2048, /* of the disk, from its beginning: two chunks of Amita's and no more, as the machine is slow */
    DEPTH = 8, /* requests under way */
    ROUND = 512, /* requests between two looks at every block */
    QUEUE_MOST = 1024,
    PAGE = 4096,
};

__asm__(".section .multiboot, \"ax\"\n"
        ".align 4\n"
        ".long 0x1badb002, 0, -0x1badb002\n"
        ".globl start\n"
        "start: mov $stack_end, %esp\n"
        "call run\n"
        ".text\n");
__attribute__((aligned(16))) u8 stack[16384];
__asm__(".globl stack_end\n.set stack_end, stack + 16384\n");

static inline void out8(u16 port, u8 value) { __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port)); }
static inline void out16(u16 port, u16 value) { __asm__ volatile("outw %0, %1" : : "a"(value), "Nd"(port)); }
static inline void out32(u16 port, u32 value) { __asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port)); }
static inline u8 in8(u16 port) { u8 value; __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port)); return value; }
static inline u16 in16(u16 port) { u16 value; __asm__ volatile("inw %1, %0" : "=a"(value) : "Nd"(port)); return value; }
static inline u32 in32(u16 port) { u32 value; __asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"(port)); return value; }

static void say(const char *text) {
    while (*text)
        out8(0xe9, (u8)*text++);
}

static void say_number(u32 number) {
    char digits[11];
    int at = 10;
    digits[at] = 0;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    say(digits + at);
}

static void end(u8 status) {
    out8(0xf4, status);
    for (;;)
        __asm__ volatile("hlt");
}

static void fail(const char *why, u32 block, u32 wanted, u32 found) {
    say("FAILED: ");
    say(why);
    say(", block ");
    say_number(block);
    say(": wanted ");
    say_number(wanted);
    say(", found ");
    say_number(found);
    say("\n");
    end(0x11);
}

/* The disk. */
struct descriptor { u64 at; u32 length; u16 flags, next; };
struct request { u32 kind, zero; u64 sector; };
enum { NEXT = 1, DEVICE_WRITES = 2, READ = 0, WRITE = 1 };

static __attribute__((aligned(PAGE))) u8 rings[QUEUE_MOST * 16 + 4 * PAGE + QUEUE_MOST * 10];
static __attribute__((aligned(PAGE))) u32 data[DEPTH][WORDS];
static struct request requests[DEPTH];
static volatile u8 statuses[DEPTH];
static volatile u16 *available, *used;
static u16 io, queue_size, seen;

static u32 pci(u32 device, u32 offset) {
    out32(0xcf8, 0x80000000u | device << 11 | offset);
    return in32(0xcfc);
}

static void find_disk(void) {
    for (u32 device = 0; device < 32 && !io; device++) {
        if (pci(device, 0) != 0x10011af4)
            continue;
        io = (u16)(pci(device, 0x10) & ~3u);
        u32 command = pci(device, 4) | 7; /* I/O, memory, bus master */
        out32(0xcf8, 0x80000000u | device << 11 | 4);
        out32(0xcfc, command);
    }
    if (!io)
        fail("there is no disk", 0, 0, 0);
    out8(io + 0x12, 0);
    out8(io + 0x12, 3); /* acknowledged, has a driver */
    out32(io + 4, 0); /* no feature */
    out16(io + 0x0e, 0);
    queue_size = in16(io + 0x0c);
    if (queue_size < 3 * DEPTH || queue_size > QUEUE_MOST)
        fail("a queue of another size", 0, QUEUE_MOST, queue_size);
    u32 blocks = in32(io + 0x14) / (BLOCK_BYTES / 512);
    if (blocks < BLOCKS)
        fail("the disk is too small", 0, BLOCKS, blocks);
    struct descriptor *descriptors = (struct descriptor *)rings;
    available = (volatile u16 *)(rings + queue_size * 16u);
    u32 far = (queue_size * 16u + 6 + queue_size * 2u + PAGE - 1) & ~(PAGE - 1u);
    used = (volatile u16 *)(rings + far);
    for (u16 slot = 0; slot < DEPTH; slot++) {
        struct descriptor *three = descriptors + slot * 3;
        three[0] = (struct descriptor){(u32)&requests[slot], sizeof(struct request), NEXT, (u16)(slot * 3 + 1)};
        three[1] = (struct descriptor){(u32)data[slot], BLOCK_BYTES, NEXT, (u16)(slot * 3 + 2)};
        three[2] = (struct descriptor){(u32)&statuses[slot], 1, DEVICE_WRITES, 0};
    }
    out32(io + 8, (u32)rings / PAGE);
    out8(io + 0x12, 7); /* works */
    say("up, ");
    say_number(blocks);
    say(" blocks\n");
}

/* What is where. */
static u32 versions[BLOCKS]; /* 0: never written */
static u8 is_busy[BLOCKS];
static u32 block_of[DEPTH], under_way, writes, reads;
static u8 is_in_use[DEPTH];

static u32 word(u32 block, u32 version, u32 place) {
    if (place == 0)
        return block;
    if (place == 1)
        return version;
    u32 mixed = block * 2654435761u + version * 2246822519u + place * 3266489917u;
    return mixed ^ mixed >> 15;
}

static void send(u32 kind, u32 block) {
    u32 slot = 0;
    while (is_in_use[slot])
        slot++;
    is_in_use[slot] = is_busy[block] = 1;
    block_of[slot] = block;
    under_way++;
    if (kind == WRITE) {
        versions[block]++;
        for (u32 place = 0; place < WORDS; place++)
            data[slot][place] = word(block, versions[block], place);
    } else {
        for (u32 place = 0; place < WORDS; place++)
            data[slot][place] = 0xdeadbeef;
    }
    requests[slot] = (struct request){kind, 0, (u64)block * (BLOCK_BYTES / 512)};
    statuses[slot] = 0xff;
    struct descriptor *second = (struct descriptor *)rings + slot * 3 + 1;
    second->flags = kind == WRITE ? NEXT : NEXT | DEVICE_WRITES;
    available[2 + available[1] % queue_size] = (u16)(slot * 3);
    __sync_synchronize();
    available[1]++;
    __sync_synchronize();
    out16(io + 0x10, 0);
}

static void take(void) {
    while (used[1] == seen)
        __asm__ volatile("pause" : : : "memory");
    __sync_synchronize();
    u32 slot = *(volatile u32 *)(used + 2 + seen % queue_size * 4) / 3;
    seen++;
    u32 block = block_of[slot];
    if (slot >= DEPTH || !is_in_use[slot])
        fail("an answer to nothing", block, DEPTH, slot);
    if (statuses[slot] != 0)
        fail("an I/O error", block, 0, statuses[slot]);
    if (requests[slot].kind == WRITE) {
        writes++;
    } else {
        reads++;
        if (data[slot][0] != block)
            fail("another block's data", block, block, data[slot][0]);
        if (data[slot][1] != versions[block])
            fail("another version", block, versions[block], data[slot][1]);
        for (u32 place = 2; place < WORDS; place++)
            if (data[slot][place] != word(block, versions[block], place))
                fail("a wrong word", block, word(block, versions[block], place), data[slot][place]);
    }
    is_in_use[slot] = is_busy[block] = 0;
    under_way--;
}

static u32 chance(void) {
    static u32 state = 88172645;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

/* As `cksum` of POSIX has it, of what the disk should have. */
static u32 sum(void) {
    u32 crc = 0;
    for (u32 block = 0; block < BLOCKS; block++)
        for (u32 place = 0; place < WORDS; place++) {
            u32 bytes = word(block, versions[block], place);
            for (int byte = 0; byte < 4; byte++) {
                crc ^= (bytes >> 8 * byte & 0xff) << 24;
                for (int bit = 0; bit < 8; bit++)
                    crc = crc << 1 ^ (crc >> 31 ? 0x04c11db7 : 0);
            }
        }
    for (u32 length = BLOCKS * BLOCK_BYTES; length; length >>= 8) {
        crc ^= (length & 0xff) << 24;
        for (int bit = 0; bit < 8; bit++)
            crc = crc << 1 ^ (crc >> 31 ? 0x04c11db7 : 0);
    }
    return ~crc;
}

void run(void) {
    find_disk();
    for (u32 block = 0; block < BLOCKS; block++) {
        if (under_way == DEPTH)
            take();
        send(WRITE, block);
    }
    u32 round = 0;
    int is_over = 0;
    while (!is_over) {
        for (u32 done = 0; done < ROUND; done++) {
            if (under_way == DEPTH)
                take();
            u32 block = chance() % BLOCKS;
            while (is_busy[block])
                block = (block + 1) % BLOCKS;
            send(chance() >> 16 & 1 ? WRITE : READ, block);
        }
        is_over = in8(0x3fd) & 1;
        for (u32 block = 0; block < BLOCKS; block++) {
            while (under_way == DEPTH || is_busy[block])
                take();
            send(READ, block);
        }
        say("round ");
        say_number(++round);
        say("\n");
    }
    while (under_way)
        take();
    say("all ");
    say_number(writes);
    say(" writes and ");
    say_number(reads);
    say(" reads were right\nsum ");
    say_number(sum());
    say("\n");
    end(0x10);
}
