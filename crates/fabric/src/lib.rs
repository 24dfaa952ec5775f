//! Messages between nodes: framing, connections, windows.
