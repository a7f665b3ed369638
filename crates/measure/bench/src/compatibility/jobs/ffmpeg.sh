# program: FFmpeg
# kind: tools
# needs: ffmpeg ffprobe
# debian: ffmpeg
# checks: checksums of all decoded frames, of a lossless copy and of an MP4 whose index was moved to its begin

version() {
    ffmpeg -version | awk 'NR == 1 { print $3 }'
}

ffmpeg() {
    command ffmpeg -nostdin -v error -y "$@"
}

work() {
    ffmpeg -f lavfi -i testsrc2=size=320x240:rate=25:duration=4 -c:v ffv1 source.mkv
    ffmpeg -i source.mkv -c:v mpeg4 -q:v 4 -movflags +faststart out.mp4
    ffmpeg -i source.mkv -c:v utvideo copy.avi
    mkdir frames
    ffmpeg -i source.mkv frames/%04d.bmp
    ffmpeg -i frames/%04d.bmp -c:v ffv1 joined.mkv
}

check() {
    for file in source.mkv copy.avi; do
        ffmpeg -i $file -pix_fmt yuv420p -f md5 - >"$NOTES/$file.md5"
    done
    cmp "$NOTES/source.mkv.md5" "$NOTES/copy.avi.md5"
    [ "$(ffprobe -v error -count_frames -select_streams v -show_entries stream=nb_read_frames -of csv=p=0 out.mp4)" = 100 ]
    ffmpeg -i out.mp4 -f null -
    [ "$(ls frames | wc -l)" = 100 ] || fail "frames are missing"
}
