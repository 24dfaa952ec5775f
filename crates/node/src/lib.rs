//! One core of a node: joins stores, sequencers, fabric and protocols; runs on either driver.
