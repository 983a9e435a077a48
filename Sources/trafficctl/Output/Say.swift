import TrafficView

/// Tells whoever reads standard error. What others chose in it is escaped.
func say(_ text: String) {
    try? StandardStream.error.write(Typeface.ascii.printable("trafficctl: \(text)") + "\n")
}
