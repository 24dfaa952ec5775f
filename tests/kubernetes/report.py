"""What was looked at: a line for each check, with its figures, and what came of it at the end."""

import time


class Failed(Exception):
    """A check that is not as it should be."""


class Report:
    def __init__(self):
        self.chapter = None
        self.counts, self.failures, self.seconds = {}, [], {}

    def begin(self, chapter):
        self.chapter = chapter
        self.counts[chapter] = 0
        print(f"\n-- {chapter}", flush=True)

    def ok(self, what, figures=""):
        self.counts[self.chapter] += 1
        print(f"ok      {what}" + (f": {figures}" if figures else ""), flush=True)

    def check(self, is_so, what, figures=""):
        if not is_so:
            raise Failed(f"{what}: {figures}" if figures else what)
        self.ok(what, figures)

    def equal(self, found, wanted, what):
        if found != wanted:
            raise Failed(f"{what}: {found!r}, and not {wanted!r}")
        self.ok(what, shortened(found))

    def note(self, what):
        print(f"        {what}", flush=True)

    def fail(self, why):
        self.failures.append((self.chapter, why))
        print(f"FAILED  {why}", flush=True)

    def end(self):
        print("\nchapter                                    checks  seconds")
        for chapter, count in self.counts.items():
            # A chapter that has looked at nothing shows nothing.
            if count == 0 and not any(chapter == failed for failed, _ in self.failures):
                self.failures.append((chapter, "nothing was looked at"))
            print(f"{chapter:42} {count:6}  {self.seconds.get(chapter, 0):7.1f}")
        for chapter, why in self.failures:
            print(f"FAILED  {chapter}: {why}")
        print(f"{sum(self.counts.values())} checks, {len(self.failures)} failures", flush=True)
        return 1 if self.failures else 0


def shortened(thing):
    text = str(thing)
    return text if len(text) <= 100 else f"{text[:97]}..."


def until(what, seconds, look, every=0.1):
    """What `look` tells as soon as it is something; and how many seconds that took."""
    begun = time.monotonic()
    while True:
        found = look()
        took = time.monotonic() - begun
        if found:
            return found, took
        if took > seconds:
            raise Failed(f"{what}: not within {seconds} s")
        time.sleep(every)


def stays(seconds, look, every=0.25):
    """Whether it is so for all that time; it has looked several times."""
    until_then = time.monotonic() + seconds
    while time.monotonic() < until_then:
        if not look():
            return False
        time.sleep(every)
    return True


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) * percent // 100]


def spread(values):
    return f"p50 {percentile(values, 50):.2f} s, p99 {percentile(values, 99):.2f} s, at most {max(values):.2f} s"
