//! One byte string of a partition and a row key, for engines that know no partitions.
//!
//! `partition 0x00 row`: ordered by partition, then row, because no partition of the workload
//! contains a zero byte.

/// The key of an entity.
pub(super) fn encode(partition: &[u8], row: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(partition.len() + 1 + row.len());
    key.extend_from_slice(partition);
    key.push(0);
    key.extend_from_slice(row);
    key
}

/// The first key after those of a partition.
pub(super) fn partition_end(partition: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(partition.len() + 1);
    key.extend_from_slice(partition);
    key.push(1);
    key
}
